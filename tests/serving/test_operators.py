"""Where the operators of an exported model run on a server with a GPU."""

import pytest

pytestmark = pytest.mark.backend("tensorflow")

# What TensorFlow has for the CPU alone: tables and texts, rows of texts that
# differ in length, and what loads the weights.
ON_THE_CPU = set(
    """
    HashTableV2 LookupTableFindV2 LookupTableImportV2 MergeV2Checkpoints
    RaggedGather RaggedTensorToTensor RestoreV2 SaveV2 ShardedFilename
    StaticRegexFullMatch StaticRegexReplace StringJoin StringSplitV2
    UnsortedSegmentJoin
    """.split()
)


def test_every_operator_has_a_kernel_of_gpus_or_is_of_text(responses):
    """By the registry of TensorFlow's wheel; `DEFAULT` is every device's."""
    tf = pytest.importorskip("tensorflow")
    kernels = pytest.importorskip("tensorflow.python.framework.kernels")
    if not tf.sysconfig.get_build_info()["is_cuda_build"]:
        pytest.skip("this TensorFlow is built without kernels of GPUs")
    for operation in map(str, responses["operations"]):
        found = kernels.get_registered_kernels_for_op(operation).kernel
        devices = {kernel.device_type for kernel in found}
        assert devices, operation
        on_the_cpu = not devices & {"GPU", "DEFAULT"}
        assert on_the_cpu == (operation in ON_THE_CPU), operation
