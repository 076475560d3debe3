#include "profiler/base/optimizer_choice.h"

#include <gmock/gmock.h>

#include "tests/support/error_of.h"

namespace mptune {
namespace {

using ::testing::HasSubstr;

TEST(OptimizerChoice, ComesBackFromItsText) {
  for (const char* text : {"sgd", "adam", "adamw", "sgd:momentum=0.9", "sgd:momentum=0.9:nesterov=true:weight_decay=1e-04",
                           "adam:beta1=0.8:beta2=0.95:eps=1e-06", "adamw:weight_decay=0.1:decay=matrices"})
    EXPECT_EQ(text_of(parse_optimizer(text)), text);
  EXPECT_EQ(text_of(parse_optimizer("adamw:weight_decay=0.01:eps=1e-8:decay=all")), "adamw") << "as without";
  EXPECT_EQ(text_of(parse_optimizer("sgd:weight_decay=1e-4:momentum=0.90")), "sgd:momentum=0.9:weight_decay=1e-04");
}

TEST(OptimizerChoice, KeepsAsMuchAsItsKindNeeds) {
  EXPECT_EQ(optimizer_state_factor(parse_optimizer("sgd")), 0);
  EXPECT_EQ(optimizer_state_factor(parse_optimizer("sgd:momentum=0.9")), 1);
  EXPECT_EQ(optimizer_state_factor(parse_optimizer("adam")), 2);
  EXPECT_EQ(optimizer_state_factor(parse_optimizer("adamw:beta1=0")), 2);
}

TEST(OptimizerChoice, DecaysAsInPyTorch) {
  EXPECT_EQ(weight_decay_of(parse_optimizer("sgd")), 0);
  EXPECT_EQ(weight_decay_of(parse_optimizer("adam")), 0);
  EXPECT_EQ(weight_decay_of(parse_optimizer("adamw")), 0.01);
  EXPECT_EQ(weight_decay_of(parse_optimizer("adamw:weight_decay=0")), 0);
}

TEST(OptimizerChoice, WhatIsNoneIsRefusedWithItsPart) {
  const auto refusal = [](const std::string& text) { return testing::refusal_of([&] { (void)parse_optimizer(text); }); };
  EXPECT_THAT(refusal(""), HasSubstr("unknown optimizer ''"));
  EXPECT_THAT(refusal("adma"), HasSubstr("unknown optimizer 'adma'"));
  EXPECT_THAT(refusal("adam:momentum=0.9"), HasSubstr("adam has no 'momentum'"));
  EXPECT_THAT(refusal("sgd:beta1=0.9"), HasSubstr("sgd has no 'beta1'"));
  EXPECT_THAT(refusal("sgd:momentun=0.9"), HasSubstr("sgd has no 'momentun'"));
  EXPECT_THAT(refusal("sgd:"), HasSubstr("sgd has no ''"));
  for (const char* value : {"", "1", "-0.1", "inf", "nan", "0.9x", " 0.9"})
    EXPECT_THAT(refusal(std::string("sgd:momentum=") + value), HasSubstr("is not a value of momentum")) << value;
  EXPECT_THAT(refusal("sgd:momentum"), HasSubstr("is not a value of momentum"));
  EXPECT_THAT(refusal("sgd:nesterov=true"), HasSubstr("nesterov needs a momentum"));
  EXPECT_THAT(refusal("sgd:nesterov=1"), HasSubstr("'1' is not a value of nesterov"));
  EXPECT_THAT(refusal("adamw:decay=none"), HasSubstr("'none' is not a value of decay"));
  EXPECT_THAT(refusal("adamw:weight_decay=2"), HasSubstr("is not a value of weight_decay"));
}

}  // namespace
}  // namespace mptune
