#include "reports/cli/commands/plan_placement.h"

#include <fmt/format.h>

#include <chrono>

#include "planner/published/objective.h"
#include "planner/published/profile_placement.h"
#include "profiler/base/index.h"
#include "profiler/base/text.h"
#include "profiler/base/units.h"
#include "profiler/device/list/device_list.h"
#include "profiler/trace/formats/placement_json.h"
#include "reports/cli/commands/plan_output.h"
#include "reports/cli/options/options.h"
#include "reports/render/report_text.h"
#include "reports/render/table.h"

namespace mptune::reports {
namespace {

constexpr std::int64_t kMostPlacementParts = 4096;

double part_seconds(std::int64_t ns) {
  return static_cast<double>(ns) / 1e9;
}

/// A graph with a name for each device.
struct NamedGraph {
  profiler::PlacementGraph graph;
  std::vector<std::string> devices;
  int samples = 0;  ///< samples of the micro-batch; 0: the graph does not say
  std::vector<std::string> assumed;
};

/// Returns names of devices in their order, "host:0" and on.
std::vector<std::string> part_names(const NamedGraph& named, const planner::LoadPartition& split) {
  std::vector<std::string> names;
  std::size_t devices = 0;
  int hosts = 0;
  for (const planner::LoadPart& part : split.parts)
    names.push_back(part.on_host ? "host:" + std::to_string(hosts++) : named.devices[devices++]);
  return names;
}

std::string parts_text(const NamedGraph& named, const planner::LoadPartition& split, const TextStyle& style) {
  const std::vector<std::string> names = part_names(named, split);
  std::vector<std::vector<Cell>> rows;
  for (std::size_t p = 0; p < split.parts.size(); ++p) {
    const planner::LoadPart& part = split.parts[p];
    rows.push_back({names[p], format_seconds(part_seconds(part.load_ns())), format_seconds(part_seconds(part.compute_ns)),
                    format_seconds(part_seconds(part.copy_ns)), format_bytes(part.bytes), std::to_string(part.nodes.size())});
  }
  return render_table({{"part"}, {"load", true}, {"compute", true}, {"copies", true}, {"memory", true}, {"nodes", true}}, rows, style);
}

planner::Json placement_json(const NamedGraph& named, const planner::LoadPartition& split, double search_s) {
  const profiler::PlacementGraph& graph = named.graph;
  const std::vector<std::string> names = part_names(named, split);
  planner::Json json = result_of("placement");
  json["graph"] = graph.name;
  json["objective"] = "max-load";
  json["load_s"] = part_seconds(split.load_ns);
  json["lower_bound_s"] = part_seconds(split.lower_bound_ns);
  json["gap"] = gap_json(split.gap());
  json["search_s"] = search_s;
  if (named.samples > 0) {
    json["samples"] = named.samples;
    json["assumed"] = named.assumed;
  }
  json["parts"] = planner::Json::array();
  for (std::size_t p = 0; p < split.parts.size(); ++p) {
    const planner::LoadPart& part = split.parts[p];
    planner::Json nodes = planner::Json::array();
    for (const int node : part.nodes) nodes.push_back(graph.nodes[as_index(node)].name);
    json["parts"].push_back({{"device", names[p]},
                             {"load_s", part_seconds(part.load_ns())},
                             {"compute_s", part_seconds(part.compute_ns)},
                             {"copy_s", part_seconds(part.copy_ns)},
                             {"memory_bytes", part.bytes},
                             {"nodes", std::move(nodes)}});
  }
  return json;
}

int show_placement(const NamedGraph& named, const Session& session) {
  const profiler::PlacementGraph& graph = named.graph;
  const auto started = std::chrono::steady_clock::now();
  const planner::ObjectiveResult found = planner::MaxLoadObjective(graph).minimize();
  const planner::LoadPartition& split = std::get<planner::LoadPartition>(found.best);
  const double search_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  const std::string what = named.samples > 0 ? fmt::format("{}, micro-batch of {},", graph.name, named.samples) : graph.name;
  const std::string hosts = graph.hosts > 0 ? fmt::format(" and {} host{}", graph.hosts, graph.hosts > 1 ? "s" : "") : "";
  const std::string proof =
      split.exact() ? "no consecutive split has a smaller one"
      : split.lower_bound_ns <= 0
          ? "not proved"
          : fmt::format("none is under {} (gap {})", format_seconds(part_seconds(split.lower_bound_ns)), format_percent(split.gap()));
  std::string text =
      heading(session.style, fmt::format("{} on {} devices{}: split in {}", what, graph.devices, hosts, format_seconds(search_s))) +
      parts_text(named, split, session.style) + fmt::format("\nlargest load {:.4g} ms, {}\n", part_seconds(split.load_ns) * 1e3, proof);
  for (const std::string& assumption : named.assumed) text += join(wrap("assumed " + assumption, session.style.width), "\n") + "\n";
  session.result(text, placement_json(named, split, search_s));
  return 0;
}

}  // namespace

int plan_placement(const std::string& path, const std::string& stages, const std::string& memory, const Session& session) {
  NamedGraph named;
  named.graph = profiler::read_placement_json(path);
  named.graph.devices = static_cast<int>(parse_whole(stages, "--stages", 1, kMostPlacementParts, named.graph.devices));
  named.graph.memory_bytes = memory.empty() ? named.graph.memory_bytes : parse_bytes(memory, "--memory");
  for (int device = 0; device < named.graph.devices; ++device) named.devices.push_back("device:" + std::to_string(device));
  return show_placement(named, session);
}

int plan_profile_placement(const ProfilePlacement& given, const Session& session) {
  const CostModel cost(given.profile);
  const std::vector<int> devices = cost.device_indices(given.devices);
  std::int64_t cap = 0;
  for (const std::int64_t bytes : given.memory_bytes) cap = bytes > 0 && (cap == 0 || bytes < cap) ? bytes : cap;
  return show_placement({planner::placement_graph(cost, devices, given.samples, cap), given.devices, given.samples, given.assumed},
                        session);
}

}  // namespace mptune::reports
