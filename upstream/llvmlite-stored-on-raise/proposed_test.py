import unittest

import llvmlite.binding as llvm

IR = """
declare void @NRT_incref(ptr)
declare void @NRT_decref(ptr)
@error = external global i8
define i32 @main(ptr %retptr, ptr %excinfo, ptr %x, i1 %normally) {
entry:
  call void @NRT_incref(ptr %x)
  br i1 %normally, label %normal, label %raise
normal:
  call void @NRT_decref(ptr %x)
  store ptr null, ptr %retptr
  ret i32 0
raise:
  store ptr @error, ptr %excinfo, !numba_exception_output !0
  br label %handler
handler:
  store ptr %x, ptr %retptr
  ret i32 0
}
!0 = !{i1 true}
"""


class TestFanoutRaise(unittest.TestCase):
    """For llvmlite/tests/test_refprune.py, beside the other TestFanoutRaise cases."""

    def test_value_stored_behind_a_raise(self):
        llvm.initialize_native_target()
        machine = llvm.Target.from_default_triple().create_target_machine()
        module = llvm.parse_assembly(IR)
        manager = llvm.create_new_module_pass_manager()
        manager.add_refprune_pass()
        options = llvm.create_pipeline_tuning_options()
        manager.run(module, llvm.create_pass_builder(machine, options))
        self.assertIn("call void @NRT_incref(", str(module))


if __name__ == "__main__":
    unittest.main()
