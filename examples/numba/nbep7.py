"""nbep7.py -- the program of NBEP 7: prints the log of one array's memory.

The proposal shows it with RMM's names; here they are Tarn's.
"""

import numpy as np
import tarn
from numba import cuda

tarn.use_tarn_for_numba()

a = np.zeros(10)
d_a = cuda.to_device(a)
del d_a
print(tarn.csv_log())
