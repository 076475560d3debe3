#include "mptune/reports/cli/plan_placement.h"

#include <fmt/format.h>

#include <chrono>

#include "mptune/planner/partition/max_load.h"
#include "mptune/profiler/device/device_spec.h"
#include "mptune/profiler/formats/placement_json.h"
#include "mptune/reports/cli/options.h"
#include "mptune/reports/render/report_text.h"
#include "mptune/reports/render/table.h"
#include "mptune/reports/render/units.h"

namespace mptune {
namespace {

constexpr std::int64_t kMostPlacementParts = 4096;

double part_seconds(std::int64_t ns) {
  return static_cast<double>(ns) * 1e-9;
}

/// "device:0", "host:0", numbered apart.
std::vector<std::string> part_names(const LoadPartition& split) {
  std::vector<std::string> names;
  int devices = 0;
  int hosts = 0;
  for (const LoadPart& part : split.parts) {
    names.push_back(part.on_host ? "host:" + std::to_string(hosts++) : "device:" + std::to_string(devices++));
  }
  return names;
}

std::string parts_text(const LoadPartition& split, const TextStyle& style) {
  const std::vector<std::string> names = part_names(split);
  std::vector<std::vector<Cell>> rows;
  for (std::size_t p = 0; p < split.parts.size(); ++p) {
    const LoadPart& part = split.parts[p];
    rows.push_back({names[p], format_seconds(part_seconds(part.load_ns())), format_seconds(part_seconds(part.compute_ns)),
                    format_seconds(part_seconds(part.copy_ns)), format_bytes(part.bytes), std::to_string(part.nodes.size())});
  }
  return render_table({{"part"}, {"load", true}, {"compute", true}, {"copies", true}, {"memory", true}, {"nodes", true}}, rows, style);
}

Json placement_json(const PlacementGraph& graph, const LoadPartition& split, double search_s) {
  const std::vector<std::string> names = part_names(split);
  Json json = result_of("placement");
  json["graph"] = graph.name;
  json["objective"] = "max-load";
  json["load_s"] = part_seconds(split.load_ns);
  json["lower_bound_s"] = part_seconds(split.lower_bound_ns);
  json["gap"] = split.gap();
  json["search_s"] = search_s;
  json["parts"] = Json::array();
  for (std::size_t p = 0; p < split.parts.size(); ++p) {
    const LoadPart& part = split.parts[p];
    Json nodes = Json::array();
    for (const int node : part.nodes) {
      nodes.push_back(graph.nodes[static_cast<std::size_t>(node)].name);
    }
    json["parts"].push_back({{"device", names[p]},
                             {"load_s", part_seconds(part.load_ns())},
                             {"compute_s", part_seconds(part.compute_ns)},
                             {"copy_s", part_seconds(part.copy_ns)},
                             {"memory_bytes", part.bytes},
                             {"nodes", std::move(nodes)}});
  }
  return json;
}

}  // namespace

int plan_placement(const std::string& path, const std::string& stages, const std::string& memory, const Session& session) {
  PlacementGraph graph = read_placement_json(path);
  graph.devices = static_cast<int>(parse_whole(stages, "--stages", 1, kMostPlacementParts, graph.devices));
  graph.memory_bytes = memory.empty() ? graph.memory_bytes : parse_bytes(memory, "--memory");
  const auto started = std::chrono::steady_clock::now();
  const LoadPartition split = least_max_load(graph);
  const double search_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  const std::string proof = split.exact() ? "no consecutive split has a smaller one"
                                          : fmt::format("none is under {} (gap {})", format_seconds(part_seconds(split.lower_bound_ns)),
                                                        format_percent(split.gap()));
  const std::string text =
      heading(session.style,
              fmt::format("{} on {} devices and {} hosts: split in {}", graph.name, graph.devices, graph.hosts, format_seconds(search_s))) +
      parts_text(split, session.style) + fmt::format("\nlargest load {:.4g} ms, {}\n", part_seconds(split.load_ns) * 1e3, proof);
  session.result(text, placement_json(graph, split, search_s));
  return 0;
}

}  // namespace mptune
