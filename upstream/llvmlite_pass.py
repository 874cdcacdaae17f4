"""What the programs about llvmlite's pass share: run it on a text of IR."""

import llvmlite
import llvmlite.binding as llvm


def pruned(text):
    """Return the IR after llvmlite's pass with all its shapes."""
    llvm.initialize_native_target()
    machine = llvm.Target.from_default_triple().create_target_machine()
    module = llvm.parse_assembly(text)
    manager = llvm.create_new_module_pass_manager()
    manager.add_refprune_pass()
    manager.run(module, llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options()))
    return str(module)


def report(is_shown, text):
    """Print the line that python/tests/test_upstream.py reads."""
    print(f"{'shown' if is_shown else 'fixed'}: {text} (llvmlite {llvmlite.__version__})")
