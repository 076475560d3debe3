#include "reports/cli/commands/plan_input.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <numeric>

#include "planner/cost/pool_costs.h"
#include "planner/plan/plan_error.h"
#include "planner/published/operator_models.h"
#include "planner/search/space/given_choices.h"
#include "profiler/base/error.h"
#include "profiler/base/text.h"
#include "profiler/device/list/device_list.h"
#include "profiler/trace/formats/bandwidth_table.h"
#include "profiler/trace/formats/layer_graph.h"
#include "profiler/trace/formats/operator_tables.h"
#include "profiler/trace/store/store.h"
#include "reports/cli/options/options.h"
#include "reports/values/estimate_words.h"

namespace mptune::reports {
namespace {

constexpr std::int64_t kMostDevicesAsked = 128;
constexpr std::int64_t kMostBatch = 1 << 20;
constexpr int kMicrobatchesPerDevice = 4;

/// Returns the profile's devices without the one of all cores, which is made up of the others. Pools are divided evenly.
std::vector<DeviceSpec> profiled_devices(const Profile& profile) {
  std::vector<DeviceSpec> devices;
  if (!planner::pools_of(profile).empty()) {
    for (const std::string& name : profile.fingerprint.devices) {
      const auto pool = find_pool(name);
      for (const std::string& device : pool ? even_division(*pool) : std::vector<std::string>{name})
        devices.push_back(parse_device(device));
    }
    return devices;
  }
  for (const ProfileDevice& device : profile.devices) devices.push_back(device_of_profile(device.name));
  for (const DeviceSpec& whole : devices) {
    std::vector<DeviceSpec> others;
    std::ranges::copy_if(devices, std::back_inserter(others), [&](const DeviceSpec& device) { return device.name != whole.name; });
    if (whole_machine_device(others) == whole.name) return others;
  }
  return devices;
}

void link_all(Profile& profile, const LinkCost& cost) {
  profile.links.clear();
  const int devices = static_cast<int>(profile.devices.size());
  for (int source = 0; source < devices; ++source) {
    for (int destination = 0; destination < devices; ++destination) {
      if (source != destination) {
        LinkCost link = cost;
        link.source = source;
        link.destination = destination;
        profile.links.push_back(std::move(link));
      }
    }
  }
}

LinkCost given_link(const std::string& text) {
  const LinkThrottle link = parse_link(text);
  LinkCost cost;
  cost.latency_s = link.latency_s;
  cost.bytes_per_second = link.bytes_per_second;
  return cost;
}

/// The latency is what the first point takes beyond its bytes at the bandwidth of the last point. Copies smaller than the first point are
/// on that line.
LinkCost link_of_table(const std::string& path) {
  profiler::TextInput input = profiler::open_text(path);
  LinkCost cost;
  cost.curve = profiler::read_bandwidth_table(input);
  const LinkPoint& first = cost.curve.front();
  const LinkPoint& last = cost.curve.back();
  cost.bytes_per_second = static_cast<double>(last.bytes) / last.seconds;
  cost.latency_s = std::max(0.0, first.seconds - static_cast<double>(first.bytes) / cost.bytes_per_second);
  return cost;
}

/// Adds simulated devices, for a file that names none.
void add_devices(PlanInput& input, int count) {
  for (int d = 0; d < count; ++d) {
    const std::string name = "device:" + std::to_string(d);
    input.profile.devices.push_back({.name = name});
    input.devices.push_back(device_of_profile(name));
  }
}

int device_count(const PlanChoice& choice, const std::string& path) {
  if (!choice.replicas.empty()) {
    std::int64_t sum = 0;
    for (const std::string& part : split(choice.replicas, ','))
      sum += parse_whole(part.empty() ? " " : part, "--replicas", 1, kMostDevicesAsked, 0);
    return static_cast<int>(parse_whole(std::to_string(sum), "--replicas", 1, kMostDevicesAsked, 0));
  }
  const auto stages = static_cast<int>(parse_whole(choice.stages, "--stages", 1, kMostDevicesAsked, 0));
  if (stages == 0) throw Error("the file names no devices", path, "give --stages K for K equal devices");
  const int each = std::max(1, planner::asked_virtual_stages(plan_values(choice)));
  if (stages % each != 0) {
    throw planner::PlanError(std::to_string(stages) + " stages, but " + std::to_string(each) + " on each device", "--stages",
                             "use a multiple of " + std::to_string(each));
  }
  return stages / each;
}

/// Prints how many devices --stages and --virtual give: a user may expect as many devices as stages.
void add_virtual_stages(PlanInput& input, const PlanChoice& choice) {
  const int each = planner::asked_virtual_stages(plan_values(choice));
  if (each > 1) {
    input.assumed.push_back(choice.stages + " stages on " + std::to_string(input.devices.size()) + " devices, " + std::to_string(each) +
                            " on each");
  }
}

void add_links(PlanInput& input, const std::string& path, profiler::ProfileFormat format, const std::string& link) {
  if (input.devices.size() < 2) return;
  const std::filesystem::path table = std::filesystem::path(path).parent_path() / "p2p_intra_node.csv";
  std::error_code ignored;
  if (!link.empty()) {
    link_all(input.profile, given_link(link));
  } else if (format == profiler::ProfileFormat::operator_tables && std::filesystem::exists(table, ignored)) {
    link_all(input.profile, link_of_table(table.string()));
    input.assumed.push_back("links as in " + table.filename().string() + " beside the tables");
  } else {
    throw Error("the file says nothing about links", path, "give --link, such as 12GB/s,10us");
  }
}

/// Adds what each format assumes without saying so.
void add_conventions(PlanInput& input, profiler::ProfileFormat format, const profiler::OperatorModel& model) {
  if (format == profiler::ProfileFormat::layer_graph)
    input.assumed.emplace_back("a sample is the micro-batch that was profiled, of a size that the file does not name");
  else
    input.assumed.push_back(
        std::to_string(model.layers) + " encoder layers (--encoder-layers), and " +
        (model.bytes_per_weight == 2 ? "weights in half precision with Adam in mixed precision" : "weights and Adam in single precision"));
}

void add_batch(PlanInput& input, const std::string& batch, PlanChoice& choice) {
  const std::vector<LayerCost>& sizes = input.profile.classes.front().layers.front().by_samples;
  if (sizes.size() == 1 && choice.microbatches.empty() && choice.split_size.empty())
    choice.split_size = std::to_string(sizes.front().samples);
  if (!batch.empty()) return;
  const std::int64_t count = parse_whole(choice.microbatches, "--microbatches", 1, kMostBatch,
                                         kMicrobatchesPerDevice * static_cast<std::int64_t>(input.devices.size()));
  const std::int64_t size = parse_whole(choice.split_size, "--split-size", 1, kMostBatch, sizes.back().samples);
  if (count * size > kMostBatch)
    throw planner::PlanError("a batch of " + std::to_string(count * size) + " samples is out of range", "--microbatches",
                             "use fewer or smaller ones");
  input.profile.batch = static_cast<int>(count * size);
  input.assumed.push_back("a batch of " + std::to_string(count * size) + " samples");
}

}  // namespace

PlanInput recorded_input(const std::string& path, const std::string& link) {
  profiler::Recording recording = profiler::read_recording(path);
  if (!recording.profile) throw Error("the file holds no profile", path, "give a file that profile or tune wrote");
  PlanInput input{.profile = planner::with_pool_devices(std::move(*recording.profile)), .devices = {}, .assumed = {}};
  input.assumed = estimate_assumptions(input.profile.estimated);
  input.training = with_files_found(std::move(recording.training), {".", std::filesystem::path(path).parent_path().string()});
  input.devices = profiled_devices(input.profile);
  input.pools = planner::pools_of(input.profile);
  if (!link.empty()) link_all(input.profile, given_link(link));
  return input;
}

profiler::OperatorModel operator_model_of(const std::string& path, profiler::ProfileFormat format, const std::string& layers) {
  if (format != profiler::ProfileFormat::operator_tables) {
    if (!layers.empty()) throw Error("only operator tables have encoder layers", "--encoder-layers", "leave it out");
    return {};
  }
  profiler::OperatorModel model = planner::published_model(path);
  model.layers = static_cast<int>(parse_whole(layers, "--encoder-layers", 1, profiler::OperatorModel::kMostLayers, model.layers));
  return model;
}

PlanInput public_input(const std::string& path, profiler::ProfileFormat format, const std::string& link, const std::string& batch,
                       const profiler::OperatorModel& model, PlanChoice& choice) {
  PlanInput input;
  input.profile =
      format == profiler::ProfileFormat::layer_graph ? profiler::read_layer_graph(path) : profiler::read_operator_tables(path, model);
  input.operators = model;
  add_conventions(input, format, model);
  add_devices(input, device_count(choice, path));
  add_virtual_stages(input, choice);
  add_links(input, path, format, link);
  add_batch(input, batch, choice);
  return input;
}

}  // namespace mptune::reports
