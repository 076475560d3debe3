#include "planner/published/operator_models.h"

#include <gtest/gtest.h>

#include <utility>

namespace mptune::planner {
namespace {

TEST(PublishedModels, HaveTheirLayersAndPrecision) {
  using Model = profiler::OperatorModel;
  for (const auto& [name, layers] :
       {std::pair("gpt_350M", 24), {"gpt_1_3B", 24}, {"gpt_2_6B", 32}, {"gpt_6_7B", 32}, {"gpt_13B", 40}, {"t5_3B", 24}, {"t5_22B", 48}})
    EXPECT_EQ(published_model(std::string("tables/") + name), (Model{layers, 2})) << name;
  EXPECT_EQ(published_model("resnet_13B").bytes_per_weight, 4);
  EXPECT_EQ(published_model("mine"), Model());
}

}  // namespace
}  // namespace mptune::planner
