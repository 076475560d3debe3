#include "reports/render/option_names.h"

#include <gtest/gtest.h>

namespace mptune::reports {
namespace {

TEST(OptionNames, EveryFieldHasItsOption) {
  for (int i = 0; i <= static_cast<int>(planner::Field::objective); ++i) {
    const auto field = static_cast<planner::Field>(i);
    EXPECT_STRNE(planner::field_name(field), "") << i;
    EXPECT_TRUE(option_of(field).starts_with("--")) << planner::field_name(field);
  }
  EXPECT_EQ(option_of(planner::Field::virtual_stages), "--virtual");
  EXPECT_EQ(option_of(planner::Field::split_size), "--split-size");
}

TEST(OptionNames, OfValues) {
  EXPECT_EQ(option_text({planner::Field::microbatches, "8"}), "--microbatches 8");
  EXPECT_EQ(option_text({planner::Field::recompute, ""}), "no --recompute option");
  EXPECT_EQ(option_texts({{planner::Field::stages, "2"}, {planner::Field::cuts, "3"}}),
            (std::vector<std::string>{"--stages 2", "--cuts 3"}));
}

TEST(OptionNames, TakeThePlaceOfFieldsInTexts) {
  EXPECT_EQ(with_option_names("leave `split_size` out, or `split_size`"), "leave --split-size out, or --split-size");
  EXPECT_EQ(with_option_names("`stages` stages"), "--stages stages");
  EXPECT_EQ(with_option_names("run `mptune doctor`"), "run `mptune doctor`");
  EXPECT_EQ(with_option_names("stages"), "stages");
}

TEST(OptionNames, AnErrorOfAFieldIsAtItsOption) {
  const planner::FieldError thrown(planner::Field::virtual_stages, "no stages per device", "leave `virtual_stages` out",
                                   ExitCode::infeasible);
  EXPECT_EQ(thrown.where(), "virtual_stages");
  const Error error = with_option_names(thrown);
  EXPECT_EQ(error.problem(), "no stages per device");
  EXPECT_EQ(error.where(), "--virtual");
  EXPECT_EQ(error.remedy(), "leave --virtual out");
  EXPECT_EQ(error.code(), ExitCode::infeasible);
  EXPECT_EQ(with_option_names(Error("unreadable", "stages", "look at it")).where(), "stages") << "a file of this name";
}

}  // namespace
}  // namespace mptune::reports
