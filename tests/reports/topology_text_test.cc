#include "reports/render/topology_text.h"

#include <gtest/gtest.h>

#include <sstream>

namespace mptune::reports {
namespace {

TopologyReport paper_report(int stages, int replicas) {
  TopologyReport report;
  report.title = "net: 64 samples on 4 hosts of 8 devices";
  report.description = "a pipeline";
  report.devices = 32;
  report.hosts = 4;
  report.used = stages * replicas;
  report.step_s = 0.1;
  report.lower_bound_s = 0.08;
  report.bound_of = "uniform plans";
  report.busy = 0.5;
  for (int s = 0; s < stages; ++s) {
    PaperStage stage{.devices = {},
                     .first_layer = 10 * s,
                     .last_layer = 10 * s + 10,
                     .recomputed = 0,
                     .parameters_bytes = 1 << 20,
                     .peak_bytes = 1 << 30,
                     .busy_s = 0.05};
    for (int r = 0; r < replicas; ++r) stage.devices.push_back(std::to_string(s) + "@cuda:" + std::to_string(r));
    report.stages.push_back(std::move(stage));
  }
  return report;
}

bool paper_has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(TopologyText, SaysStepBoundAndGap) {
  EXPECT_TRUE(paper_has(render_topology_report(paper_report(2, 1), {}),
                        "predicted step 100 ms; lower bound of uniform plans 80.0 ms (gap 25.0 %)"));
  TopologyReport proved = paper_report(2, 1);
  proved.proved = true;
  EXPECT_TRUE(paper_has(render_topology_report(proved, {}), "predicted step 100 ms; no plan is faster of uniform plans"));
}

TEST(TopologyText, ShortensListsOfDevicesAndStages) {
  const std::string text = render_topology_report(paper_report(30, 8), {.width = 80});
  EXPECT_TRUE(paper_has(text, "0@cuda:0 .. 0@cuda:7 (8)"));
  EXPECT_TRUE(paper_has(text, "14 more stages"));
  EXPECT_FALSE(paper_has(text, "15@cuda:0"));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(display_width(line), 80) << line;
}

TEST(TopologyText, NamesTheWayThatIsUsed) {
  TopologyReport report = paper_report(1, 4);
  report.sum = GradientSum{.stage = 0, .bytes = 1 << 20, .group = {}, .costs = {.ring_s = 0.002, .tree_s = 0.001}};
  report.sum->group.replicas = 4;
  EXPECT_TRUE(paper_has(render_topology_report(report, {.width = 120}), "over 4 replicas on 1 host: ring 2.00 ms, tree 1.00 ms (used)\n"));
  const planner::Json json = topology_json(report);
  EXPECT_EQ(json["gradient_sum"]["used"], "tree");
  EXPECT_TRUE(json["gradient_sum"]["hierarchical_s"].is_null());
  EXPECT_TRUE(topology_json(paper_report(2, 1))["gradient_sum"].is_null());
}

TEST(TopologyText, ShowsRecomputationWhereThereIsAny) {
  TopologyReport report = paper_report(2, 1);
  EXPECT_FALSE(paper_has(render_topology_report(report, {}), "recomputed"));
  report.stages[1].recomputed = 3;
  EXPECT_TRUE(paper_has(render_topology_report(report, {}), "3 of 10"));
}

}  // namespace
}  // namespace mptune::reports
