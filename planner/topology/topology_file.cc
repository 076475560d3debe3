#include "planner/topology/topology_file.h"

#include <algorithm>
#include <optional>

#include "planner/plan/file/plan_json.h"
#include "profiler/base/json_field.h"
#include "profiler/base/printable.h"
#include "profiler/base/units.h"
#include "profiler/base/whole_file.h"

namespace mptune::planner {
namespace {

constexpr const char* kTopologySchema = "mptune.topology/1";
constexpr const char* kTopologyFamily = "mptune.topology/";
constexpr const char* kTopologyRemedy = "correct it; mptune help plan shows a topology file";
constexpr std::int64_t kLargestTopologyFile = std::int64_t{1} << 20;
constexpr JsonLimits kTopologyLimits{.depth = 8, .values = 50'000};
constexpr double kLeastBandwidth = 1;
constexpr double kMostBandwidth = 1e15;
constexpr double kMostLatency = 60;

void check_topology_schema(const JsonField& file) {
  const std::string& schema = file.at("schema").text();
  if (schema == kTopologySchema) return;
  const std::string shown = printable(schema.substr(0, 40));
  if (schema.starts_with(kTopologyFamily))
    file.at("schema").refuse("is another version, '" + shown + "': this program reads " + kTopologySchema);
  file.at("schema").refuse("is '" + shown + "', not " + kTopologySchema);
}

double bandwidth_of(const JsonField& field) {
  const std::string text = label_of(field);
  const auto quantity = parse_quantity(text);
  std::optional<double> factor;
  if (quantity && quantity->unit.ends_with("/s") && quantity->unit.size() > 2)
    factor = byte_unit(quantity->unit.substr(0, quantity->unit.size() - 2));
  if (!factor) field.refuse("is not a bandwidth such as \"300GB/s\"");
  const double bytes_per_second = quantity->value * *factor;
  if (!(bytes_per_second >= kLeastBandwidth && bytes_per_second <= kMostBandwidth)) field.refuse("is not from 1 B/s to 1000 TB/s");
  return bytes_per_second;
}

double latency_of(const JsonField& field) {
  const std::string text = label_of(field);
  const auto quantity = parse_quantity(text);
  const std::optional<double> seconds = quantity && !quantity->unit.empty() ? find_seconds(text) : std::nullopt;
  if (!seconds) field.refuse("is not a time such as \"5us\"");
  if (!(*seconds <= kMostLatency)) field.refuse("is more than 60 s");
  return *seconds;
}

std::int64_t memory_of(const JsonField& field) {
  const std::optional<std::int64_t> bytes = find_bytes(label_of(field));
  if (!bytes) field.refuse("is not a size such as \"80GiB\"");
  return *bytes;
}

double speed_of(const JsonField& field) {
  const double speed = field.number();
  if (!(speed >= Topology::kLeastSpeed && speed <= Topology::kMostSpeed)) field.refuse("is not from 0.001 to 1000");
  return speed;
}

NetworkLink link_from(const JsonField& object) {
  return {latency_of(object.at("latency")), bandwidth_of(object.at("bandwidth"))};
}

int count_of(const JsonField& field, int most) {
  const auto count = field.whole<std::int64_t>();
  if (count < 1 || count > most) field.refuse("is not from 1 to " + std::to_string(most));
  return static_cast<int>(count);
}

std::string name_from(const JsonField& field) {
  constexpr std::size_t kLongestName = 100;
  std::string name = label_of(field);
  if (name.empty() || name.size() > kLongestName) field.refuse("is not from 1 to 100 bytes long");
  return name;
}

HostGroup group_from(const JsonField& object) {
  HostGroup group;
  group.name = name_from(object.at("name"));
  group.hosts = count_of(object.at("count"), Topology::kMostDevices);
  group.devices = count_of(object.at("devices"), Topology::kMostDevicesOfHost);
  if (const auto like = object.find("like")) group.like = name_from(*like);
  if (const auto speed = object.find("speed")) group.speed = speed_of(*speed);
  if (const auto memory = object.find("memory")) group.memory_bytes = memory_of(*memory);
  if (group.devices > 1 || object.has("link")) group.link = link_from(object.at("link"));
  return group;
}

void check_groups(const Topology& topology, const JsonField& hosts) {
  if (topology.groups.empty()) hosts.refuse("names no hosts");
  std::int64_t devices = 0;
  for (std::size_t g = 0; g < topology.groups.size(); ++g) {
    const HostGroup& group = topology.groups[g];
    devices += std::int64_t{group.hosts} * group.devices;
    const auto same = std::ranges::find(topology.groups, group.name, &HostGroup::name);
    if (same != topology.groups.begin() + static_cast<std::ptrdiff_t>(g)) hosts.refuse("names '" + group.name + "' twice");
  }
  if (devices > Topology::kMostDevices)
    hosts.refuse("has " + std::to_string(devices) + " devices, more than " + std::to_string(Topology::kMostDevices));
}

bool is_shared(const JsonField& between) {
  const auto shared = between.find("shared");
  const std::string text = shared ? label_of(*shared) : "device";
  if (text != "device" && text != "host") shared->refuse("is neither \"device\" nor \"host\"");
  return text == "host";
}

}  // namespace

Topology parse_topology(const std::string& text, const std::string& where) {
  const JsonSource source{where, "", kTopologyRemedy};
  const nlohmann::json json = parse_json(text, source, kTopologyLimits);
  const JsonField file(json, source);
  check_topology_schema(file);
  Topology topology;
  topology.groups = file.at("hosts").list(group_from);
  check_groups(topology, file.at("hosts"));
  if (topology.host_count() == 1 && !file.has("between_hosts")) return topology;
  const JsonField between = file.at("between_hosts");
  topology.between = link_from(between);
  topology.shared_per_host = is_shared(between);
  return topology;
}

Topology load_topology(const std::string& path) {
  return parse_topology(read_whole_file(path, kLargestTopologyFile, "topology file"), path);
}

}  // namespace mptune::planner
