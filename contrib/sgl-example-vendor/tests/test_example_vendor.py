"""The rule alone, without a server and without hardware."""

from sgl_example_vendor.rules import vendor_attention

from sgl_core.api import Facts, ModelInfo, force
from sgl_core.testing.kit import check_dist
from sgl_core.testing.views import DefaultsView

MODEL = ModelInfo(architecture="LlamaForCausalLM")


def test_the_value_means_torch_on_a_cpu() -> None:
    view = DefaultsView(attention_backend="example_vendor")
    (answer,) = vendor_attention.function(view, Facts(platform="cpu"), MODEL)
    assert answer == force("attention_backend", "torch_native", because="example_vendor recommends torch_native on cpu")


def test_other_values_are_left_alone() -> None:
    assert list(vendor_attention.function(DefaultsView(), Facts(platform="cpu"), MODEL)) == []


def test_the_package_conforms() -> None:
    assert check_dist("sgl-example-vendor") == []
