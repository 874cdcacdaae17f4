/* foreign_file.h -- files that other processes share. */
#ifndef TARN_SIM_FOREIGN_FILE_H
#define TARN_SIM_FOREIGN_FILE_H

#include <stdint.h>

/* Open a memfd of another process of this user by its number there, inode and name; -1
 * on failure. */
int sim_foreign_file_open(int32_t process, int32_t file, uint64_t inode,
                          const char *name);

#endif
