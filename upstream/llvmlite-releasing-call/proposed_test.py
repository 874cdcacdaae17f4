import unittest

import llvmlite.binding as llvm

IR = """
declare void @NRT_incref(ptr)
declare void @NRT_decref(ptr)
declare ptr @load_field(ptr) readonly
declare void @replace_field(ptr)
declare double @read(ptr) readonly
define double @main(ptr %box) {
entry:
  %x = call ptr @load_field(ptr %box)
  call void @NRT_incref(ptr %x)
  call void @replace_field(ptr %box)
  %result = call double @read(ptr %x)
  call void @NRT_decref(ptr %x)
  ret double %result
}
"""


class TestPerBB(unittest.TestCase):
    """For llvmlite/tests/test_refprune.py: the call may release the field's old value."""

    def test_call_that_may_release(self):
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
