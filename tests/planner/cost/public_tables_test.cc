// Micro-batch sizes left out of published operator tables, interpolated through the others.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "planner/cost/cost_model.h"
#include "profiler/trace/formats/operator_tables.h"
#include "profiler/trace/formats/text_input.h"
#include "tests/support/files.h"

namespace mptune::planner {
namespace {

using OperatorTables = std::map<int, std::vector<profiler::OperatorRow>>;

OperatorTables tables_of(const std::string& prefix) {
  OperatorTables tables;
  for (const auto& [samples, path] : profiler::operator_table_files(prefix)) {
    profiler::TextInput input = profiler::open_text(path);
    tables[samples] = profiler::read_operator_table(input);
  }
  return tables;
}

// Forward and backward of the whole model.
double seconds_of(const OperatorTables& tables, int samples) {
  Profile profile = profiler::profile_of_operators(tables, "tables");
  profile.devices.push_back({"gpu:0", 0, 0});
  const CostModel cost(profile);
  double seconds = 0;
  for (int layer = 0; layer < cost.layers(); ++layer) {
    const LayerTimes times = cost.layer(0, layer, samples);
    seconds += times.forward_s + times.backward_s;
  }
  return seconds;
}

TEST(PublicTables, LeftOutSizesAreInterpolatedWithinTwoPercent) {
  if (testing::shared_data("aceso").empty()) {
    GTEST_SKIP() << "no shared data: Aceso's operator tables";
  }
  for (const char* model : {"gpt_1_3B", "gpt_350M"}) {
    const OperatorTables all = tables_of(testing::shared_data("aceso") + "/" + model);
    for (const int left_out : {2, 4}) {
      OperatorTables rest = all;
      rest.erase(left_out);
      EXPECT_NEAR(seconds_of(rest, left_out) / seconds_of(all, left_out), 1, 0.02) << model << " " << left_out;
    }
  }
}

}  // namespace
}  // namespace mptune::planner
