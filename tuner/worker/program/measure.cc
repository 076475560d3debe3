#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <utility>

#include "profiler/base/activity.h"
#include "profiler/base/device_spec.h"
#include "profiler/base/error.h"
#include "profiler/base/hardware.h"
#include "profiler/base/index.h"
#include "profiler/base/machine.h"
#include "profiler/device/list/device_list.h"
#include "profiler/measure/estimate.h"
#include "profiler/measure/measure.h"
#include "profiler/trace/ranks/joined_profile.h"
#include "profiler/trace/store/store.h"
#include "tuner/runtime/between/rank_links.h"
#include "tuner/runtime/between/rank_streams.h"
#include "tuner/runtime/between/remote_device.h"
#include "tuner/worker/program/ranks.h"
#include "tuner/worker/program/recording_file.h"
#include "tuner/worker/program/requests.h"

namespace mptune::tuner {

namespace {

using profiler::HostProfile;

enum MeasureTag : int { host_names, profiles, links, direct_links, memory };  // tags of what ranks send each other while they measure
constexpr double kPatienceOfHosts = 3600;  // hosts measure at the same time, for as long as their budgets allow

Profile measured(const MeasureRequest& request, const std::vector<DeviceSpec>& devices, const std::vector<std::int64_t>& caps,
                 const Replies& reply) {
  TrainingSetup real = request.setup;
  real.sleep_profile.clear();  // a sleeping device has the costs of the real model on a core
  const Model model = model_of(real).model;
  profiler::MeasureOptions options;
  for (const std::string& pool : real.pools) options.pools.push_back(parse_pool(pool));
  options.devices = devices;
  options.whole_machine = real.whole_machine;
  options.link = real.link;
  options.memory_bytes = caps;
  options.batch = batch_size_of(real, model);
  options.optimizer = real.optimizer;
  // The budget also covers loading the model and making the batch.
  const Batch batch = batch_of(real, model);
  const double spent_s = request.started_s > 0 ? monotonic_seconds() - request.started_s : 0;
  options.budget_s = std::max(0.0, request.budget_s - spent_s);
  if (request.most_s > 0) options.most_s = std::max(0.0, request.most_s - spent_s);
  options.keeps_budget = true;
  bool told = false;
  options.timed = [&](int samples, double seconds) {
    if (!std::exchange(told, true)) reply(PassTimed{samples, seconds});
  };
  options.channels_last = request.channels_last;
  options.replaced_kernels = request.replaced_kernels;
  options.threads = request.threads;
  options.progress = [&](const std::string& what, double fraction) { reply(Progress{what, fraction}); };
  options.warn = [&](const std::string& warning) { reply(Warned{warning}); };
  return profiler::measure_profile(model, batch, options);
}

std::int64_t cap_of(const TrainingSetup& setup, const std::string& device) {
  const auto cap = setup.memory_bytes.find(device);
  return cap == setup.memory_bytes.end() ? 0 : cap->second;
}

Profile estimated(const MeasureRequest& request) {
  const std::optional<Hardware> hardware = find_hardware(request.estimate);
  if (!hardware)
    throw Error("unknown GPU '" + request.estimate + "'", "--estimate", "make sure that both programs are of the same build",
                ExitCode::internal);
  const Model model = model_of(request.setup).model;
  const Batch batch = batch_of(request.setup, model);
  return profiler::estimate_profile(model, batch, batch_size_of(request.setup, model), request.setup.optimizer, *hardware);
}

Profile measured_here(const MeasureRequest& request, const Replies& reply) {
  if (!request.estimate.empty()) return estimated(request);
  std::vector<DevicePool> pools;
  for (const std::string& pool : request.setup.pools) pools.push_back(parse_pool(pool));
  const std::vector<DeviceSpec> devices = profiler::measured_devices(parse_device_names(request.setup.devices), pools);
  std::vector<std::int64_t> caps;
  for (const DeviceSpec& device : devices) caps.push_back(cap_of(request.setup, device.name));
  return measured(request, devices, caps, reply);
}

/// Returns a name that differs between machines.
std::string host_name() {
  constexpr std::size_t kLongestName = 256;
  std::string name(kLongestName, '\0');
  (void)::gethostname(name.data(), name.size() - 1);
  std::ifstream boot("/proc/sys/kernel/random/boot_id");
  return name.c_str() + std::string(std::istreambuf_iterator<char>(boot), {});
}

std::string profile_file(const Profile& profile) {
  profiler::Recording recording;
  recording.profile = profile;
  return file_of(recording);
}

/// Returns the devices of all ranks on the host of `rank`.
std::vector<std::string> devices_on_host(const MeasureRequest& request, const std::vector<std::string>& hosts, int rank) {
  std::vector<std::string> devices;
  for (const std::string& device : request.setup.devices)
    if (hosts.at(as_index(parse_device(device).rank)) == hosts[as_index(rank)]) devices.push_back(device);
  return devices;
}

/// Measures all devices of a host, on its first rank, as if they were of one process: they compute beside each other in training as well.
Profile measured_on_host(const MeasureRequest& request, const std::vector<std::string>& devices, const Replies& reply) {
  std::vector<std::string> names;
  std::vector<std::int64_t> caps;
  for (const std::string& device : devices) {
    names.push_back(without_rank(device));
    caps.push_back(cap_of(request.setup, device));
  }
  return measured(request, parse_device_names(names), caps, reply);
}

std::vector<HostProfile> host_profiles(const MeasureRequest& request, RankStreams& streams, const Replies& reply) {
  const int rank = streams.group().rank();
  const std::vector<std::string> hosts = streams.exchange_texts(MeasureTag::host_names, host_name());
  const auto is_first = [&](int r) { return std::ranges::find(hosts, hosts[as_index(r)]) - hosts.begin() == r; };
  std::string own;
  if (is_first(rank)) own = profile_file(measured_on_host(request, devices_on_host(request, hosts, rank), reply));
  const Activity activity("waiting for", "the other ranks, which measure", kPatienceOfHosts);
  const std::vector<std::string> files = streams.exchange_texts(MeasureTag::profiles, own);
  std::vector<HostProfile> profiles;
  for (int r = 0; r < static_cast<int>(files.size()); ++r)
    if (is_first(r)) profiles.push_back({recording_of(files[as_index(r)]).profile.value(), devices_on_host(request, hosts, r)});
  return profiles;
}

/// Sets, for each GPU without a cap, the memory that its own rank can have beside other processes that use the GPU.
void set_available_memory(const MeasureRequest& request, RankStreams& streams, const std::vector<std::shared_ptr<Device>>& devices,
                          Profile& profile) {
  std::vector<double> own;
  for (const auto& device : devices)
    own.push_back(device->spec().rank == streams.group().rank() ? static_cast<double>(device->available_bytes()) : 0);
  const std::vector<std::vector<double>> of_ranks = streams.exchange(MeasureTag::memory, own);
  for (std::size_t d = 0; d < devices.size(); ++d)
    if (const double available = of_ranks[as_index(devices[d]->spec().rank)][d];
        available > 0 && cap_of(request.setup, devices[d]->name()) == 0)
      profile.devices[d].memory_bytes = static_cast<std::int64_t>(available);
}

/// Returns the same profile on all ranks.
Profile measured_over_ranks(const MeasureRequest& request, const std::shared_ptr<RankGroup>& ranks, const Replies& reply) {
  RankStreams streams(ranks);
  const std::vector<HostProfile> hosts = host_profiles(request, streams, reply);
  reply(Progress{"links between ranks", 0.99});
  const Activity activity("the links between ranks", "", kPatienceOfHosts);
  const std::vector<MeasuredRankLink> found = measure_rank_links(streams, MeasureTag::links);
  std::vector<std::shared_ptr<Device>> devices;
  for (const std::string& name : request.setup.devices) devices.push_back(make_device_of(parse_device(name), ranks.get()));
  const std::vector<MeasuredRankLink> direct = measure_direct_links(streams, devices, MeasureTag::direct_links, profiler::nccl_connector());
  Profile profile = join_profiles(hosts, request.setup.devices, {found.begin(), found.end()}, {direct.begin(), direct.end()});
  set_available_memory(request, streams, devices, profile);
  return profile;
}

}  // namespace

void measure(const MeasureRequest& request, const Replies& reply) {
  const std::shared_ptr<RankGroup> ranks = ranks_for(request);
  for_ranks(ranks, [&] {
    profiler::Recording recording;
    recording.profile = ranks ? measured_over_ranks(request, ranks, reply) : measured_here(request, reply);
    if (ranks && ranks->rank() > 0) return;
    recording.environment = machine_to_json(this_machine());
    profiler::write_recording(recording, request.path, /*force=*/true);
  });
}

}  // namespace mptune::tuner
