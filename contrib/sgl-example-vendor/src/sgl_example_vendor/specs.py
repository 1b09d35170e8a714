"""One plain choice, offered in two registries, and a rule set."""

from sgl_core.api import ChoiceSpec, RuleSetSpec

VALUE = ChoiceSpec(name="example_vendor", summary="whatever the vendor thinks best (an example)")

RULES = RuleSetSpec(
    name="example_vendor",
    target="sgl_example_vendor.rules:RULES",
    summary="what the value example_vendor stands for",
)
