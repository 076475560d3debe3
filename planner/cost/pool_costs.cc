#include "planner/cost/pool_costs.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "profiler/base/index.h"

namespace mptune::planner {
namespace {

std::string cpu_class(int cores) {
  return "cpu/" + std::to_string(cores);
}

std::optional<int> class_named(const Profile& profile, const std::string& name) {
  for (std::size_t c = 0; c < profile.classes.size(); ++c)
    if (profile.classes[c].variant_of < 0 && profile.classes[c].name == name) return static_cast<int>(c);
  return std::nullopt;
}

// Two measured numbers of cores around a number that was not measured.
struct Between {
  int low = 0;
  int high = 0;
  double share = 0;  // share of the way from low to high

  [[nodiscard]] double of(double at_low, double at_high) const { return at_low + (at_high - at_low) * share; }
  [[nodiscard]] Samples of(const Samples& at_low, const Samples& at_high) const {
    return at_low.empty() || at_high.empty() ? Samples{} : exactly(of(median(at_low), median(at_high)));
  }
};

Between between(const DevicePool& pool, int cores) {
  Between result;
  for (const int count : measured_core_counts(static_cast<int>(pool.whole.cores.size()))) {
    if (count < cores) result.low = count;
    if (count > cores && result.high == 0) result.high = count;
  }
  result.share = (1.0 / result.low - 1.0 / cores) / (1.0 / result.low - 1.0 / result.high);
  return result;
}

std::optional<double> slow_down(const Samples& alone, const Samples& busy) {
  if (alone.empty() || busy.empty() || median(alone) <= 0) return std::nullopt;
  return median(busy) / median(alone);
}

Samples busy_of(const Between& place, const Samples& alone, std::optional<double> low, std::optional<double> high) {
  if (alone.empty() || !low) return {};
  return exactly(median(alone) * place.of(*low, high.value_or(*low)));
}

LayerCost interpolated(const Between& place, const LayerCost& low, const LayerCost& high) {
  // Sizes of outputs and bytes that were measured in detail do not depend on the cores.
  LayerCost cost = low;
  cost.forward = place.of(low.forward, high.forward);
  cost.backward = place.of(low.backward, high.backward);
  cost.backward_input = place.of(low.backward_input, high.backward_input);
  cost.backward_weight = place.of(low.backward_weight, high.backward_weight);
  cost.forward_busy = busy_of(place, cost.forward, slow_down(low.forward, low.forward_busy), slow_down(high.forward, high.forward_busy));
  cost.backward_busy =
      busy_of(place, cost.backward, slow_down(low.backward, low.backward_busy), slow_down(high.backward, high.backward_busy));
  cost.saved_activation_bytes = std::max(low.saved_activation_bytes, high.saved_activation_bytes);
  cost.workspace_bytes = std::max(low.workspace_bytes, high.workspace_bytes);
  cost.keeps_output = low.keeps_output || high.keeps_output;
  if (!high.split) cost.split.reset();
  if (!high.peaks) cost.peaks.reset();
  return cost;
}

LayerCosts interpolated(const Between& place, const LayerCosts& low, const LayerCosts& high) {
  LayerCosts costs;
  for (const LayerCost& cost : low.by_samples) {
    const auto other = std::ranges::find(high.by_samples, cost.samples, &LayerCost::samples);
    if (other != high.by_samples.end()) costs.by_samples.push_back(interpolated(place, cost, *other));
  }
  return costs;
}

DeviceClass interpolated(const Between& place, const DeviceClass& low, const DeviceClass& high) {
  DeviceClass result;
  for (std::size_t l = 0; l < low.layers.size() && l < high.layers.size(); ++l)
    result.layers.push_back(interpolated(place, low.layers[l], high.layers[l]));
  result.action_seconds = place.of(low.action_seconds, high.action_seconds);
  result.step_seconds = place.of(low.step_seconds, high.step_seconds);
  result.optimizer_seconds_per_byte = place.of(low.optimizer_seconds_per_byte, high.optimizer_seconds_per_byte);
  result.reduce_seconds_per_byte = place.of(low.reduce_seconds_per_byte, high.reduce_seconds_per_byte);
  result.allocator_reserve = std::max(low.allocator_reserve, high.allocator_reserve);
  result.library_bytes = std::max(low.library_bytes, high.library_bytes);
  return result;
}

// Returns the costs of `cores` cores in a variant. Where nothing was measured with slow kernels replaced, replacing them changes nothing.
const DeviceClass* costs_of(const Profile& profile, int cores, ExecutionVariant variant) {
  const auto base = class_named(profile, cpu_class(cores));
  if (!base) return nullptr;
  if (variant.threads >= cores) variant.threads = 0;
  for (std::size_t c = 0; c < profile.classes.size(); ++c) {
    const bool of_devices = static_cast<int>(c) == *base || profile.classes[c].variant_of == *base;
    if (of_devices && profile.classes[c].variant == variant) return &profile.classes[c];
  }
  return std::exchange(variant.replaces_slow_kernels, false) ? costs_of(profile, cores, variant) : nullptr;
}

// Returns all variants that were measured on either number of cores and make a difference on `cores`, the default one first.
std::vector<ExecutionVariant> variants_of(const Profile& profile, const Between& place, int cores) {
  std::vector<ExecutionVariant> variants{ExecutionVariant()};
  for (const int measured : {place.low, place.high}) {
    const auto base = class_named(profile, cpu_class(measured));
    for (const DeviceClass& one : profile.classes) {
      const bool new_one = base && one.variant_of == *base && one.variant.threads < cores;
      if (new_one && std::ranges::find(variants, one.variant) == variants.end()) variants.push_back(one.variant);
    }
  }
  return variants;
}

// Returns the index of the class of `cores` cores of the pool. The class is added if it was not measured.
int class_of_cores(Profile& profile, const DevicePool& pool, int cores) {
  if (const auto known = class_named(profile, cpu_class(cores))) return *known;
  const Between place = between(pool, cores);
  const int base = static_cast<int>(profile.classes.size());
  for (const ExecutionVariant& variant : variants_of(profile, place, cores)) {
    const DeviceClass* low = costs_of(profile, place.low, variant);
    const DeviceClass* high = costs_of(profile, place.high, variant);
    if (low == nullptr || high == nullptr) continue;
    DeviceClass added = interpolated(place, *low, *high);
    added.name = cpu_class(cores);
    added.variant = variant;
    added.variant_of = variant == ExecutionVariant() ? -1 : base;
    profile.classes.push_back(std::move(added));
  }
  return base;
}

// Returns the devices whose links price those of `device`: for a CPU device of a pool, the measured ones of the next smaller number of
// cores.
std::vector<std::string> measured_alike(const DeviceSpec& device, const std::vector<DevicePool>& pools) {
  const auto pool = std::ranges::find_if(pools, [&](const DevicePool& one) { return in_pool(device, one); });
  if (pool == pools.end() || device.kind != DeviceSpec::Kind::cpu) return {device.name};
  const int cores = static_cast<int>(device.cores.size());
  int measured = 1;
  for (const int count : measured_core_counts(static_cast<int>(pool->whole.cores.size())))
    if (count <= cores) measured = count;
  const int first = pool->whole.cores.front();
  const int last = pool->whole.cores.back();
  return {cpu_name(first, first + measured - 1), cpu_name(last - measured + 1, last)};
}

class Links {
 public:
  Links(const Profile& profile, std::vector<DevicePool> pools) : pools_(std::move(pools)) {
    for (const LinkCost& link : profile.links)
      measured_[{profile.devices[as_index(link.source)].name, profile.devices[as_index(link.destination)].name}] = link;
  }
  [[nodiscard]] const LinkCost* between(const DeviceSpec& source, const DeviceSpec& destination) const {
    for (const std::string& from : measured_alike(source, pools_))
      for (const std::string& to : measured_alike(destination, pools_))
        if (const auto known = measured_.find({from, to}); known != measured_.end()) return &known->second;
    return nullptr;
  }

 private:
  std::vector<DevicePool> pools_;
  std::map<std::pair<std::string, std::string>, LinkCost> measured_;
};

// Equal devices get equal links, whichever of them were measured, so that a search need not tell them apart.
void link_devices(Profile& profile, const Links& links) {
  std::vector<DeviceSpec> devices;
  for (const ProfileDevice& device : profile.devices) devices.push_back(parse_device(device.name));
  profile.links.clear();
  for (std::size_t a = 0; a < devices.size(); ++a)
    for (std::size_t b = 0; b < devices.size(); ++b) {
      const LinkCost* known = overlap(devices[a], devices[b]) ? nullptr : links.between(devices[a], devices[b]);
      if (known == nullptr) continue;
      profile.links.push_back(*known);
      profile.links.back().source = static_cast<int>(a);
      profile.links.back().destination = static_cast<int>(b);
    }
}

}  // namespace

std::vector<DevicePool> pools_of(const Profile& profile) {
  std::vector<DevicePool> pools;
  for (const std::string& name : profile.fingerprint.devices)
    if (auto pool = find_pool(name)) pools.push_back(*std::move(pool));
  return pools;
}

Profile with_pool_devices(Profile profile) {
  const std::vector<DevicePool> pools = pools_of(profile);
  if (pools.empty()) return profile;
  const Links links(profile, pools);
  std::set<std::string> known;
  for (const ProfileDevice& device : profile.devices) known.insert(device.name);
  for (const DevicePool& pool : pools) {
    if (pool.whole.kind != DeviceSpec::Kind::cpu) continue;  // all parts of a GPU were measured
    const auto whole = std::ranges::find(profile.devices, pool.whole.name, &ProfileDevice::name);
    const std::int64_t memory_bytes = whole == profile.devices.end() ? 0 : whole->memory_bytes;
    for (const std::vector<std::string>& division : divisions_of(pool))
      for (const std::string& name : division)
        if (known.insert(name).second)
          profile.devices.push_back({name, class_of_cores(profile, pool, static_cast<int>(parse_device(name).cores.size())), memory_bytes});
  }
  link_devices(profile, links);
  return profile;
}

std::vector<int> interpolated_cores(const Profile& profile, const std::vector<std::string>& devices) {
  std::set<int> counts;
  for (const DevicePool& pool : pools_of(profile)) {
    if (pool.whole.kind != DeviceSpec::Kind::cpu) continue;
    const std::vector<int> measured = measured_core_counts(static_cast<int>(pool.whole.cores.size()));
    for (const std::string& name : devices) {
      const auto device = find_device(name);
      if (!device || !in_pool(*device, pool)) continue;
      const int cores = static_cast<int>(device->cores.size());
      if (std::ranges::find(measured, cores) == measured.end()) counts.insert(cores);
    }
  }
  return {counts.begin(), counts.end()};
}

}  // namespace mptune::planner
