#include "planner/cost/cost_model.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "planner/cost/curve_points.h"
#include "planner/cost/neighbours.h"
#include "planner/cost/peak_bytes.h"
#include "planner/cost/variants.h"
#include "planner/plan/plan_error.h"
#include "profiler/base/device_spec.h"
#include "profiler/base/error.h"

namespace mptune {
namespace {

constexpr const char* kRemedy = "profile the model again";
constexpr std::size_t kMostSearchedNames = 16;  // more names than this are looked up in a table

void require_costs(const Profile& profile, const DeviceClass& device_class) {
  if (device_class.layers.size() != profile.layers.size())
    throw Error("the profile has costs of " + std::to_string(device_class.layers.size()) + " of " + std::to_string(profile.layers.size()) +
                    " layers",
                "device class " + device_class.name, kRemedy);
  if (!(device_class.allocator_reserve >= 0 && device_class.allocator_reserve <= 100))
    throw Error("the allocator's reserve is not a fraction of the bytes in use", "device class " + device_class.name, kRemedy);
  for (std::size_t layer = 0; layer < profile.layers.size(); ++layer)
    if (std::ranges::none_of(device_class.layers[layer].by_samples, planner::is_usable))
      throw Error("the profile has no cost of layer " + profile.layers[layer].name, "device class " + device_class.name, kRemedy);
}

const Profile& with_costs(const Profile& profile) {
  if (profile.layers.empty()) throw Error("the profile has no layers", profile.model, kRemedy);
  for (const DeviceClass& device_class : profile.classes) require_costs(profile, device_class);
  return profile;
}

std::vector<bool> allowed_cuts(const Profile& profile) {
  std::vector<bool> allowed(profile.layers.size(), true);
  for (const ForbiddenCut& cut : profile.forbidden_cuts) {
    if (cut.layer <= 0 || as_index(cut.layer) >= profile.layers.size())
      throw Error("no stage can begin at layer " + std::to_string(cut.layer) + ", which the profile forbids", profile.model, kRemedy);
    allowed[as_index(cut.layer)] = false;
  }
  return allowed;
}

std::vector<TimeCurve> time_curves(const Profile& profile) {
  std::vector<TimeCurve> curves;
  for (const DeviceClass& device_class : profile.classes) {
    for (std::size_t l = 0; l < profile.layers.size(); ++l) {
      const ProfileLayer& layer = profile.layers[l];
      curves.emplace_back(device_class.layers[l], layer.parameters > 0 || layer.parameters_bytes > 0);
    }
  }
  return curves;
}

// Devices of a network are of one process on paper.
std::vector<int> ranks_of_devices(const Profile& profile) {
  std::vector<int> ranks;
  for (const ProfileDevice& device : profile.devices) {
    const auto spec = profile.network.empty() ? find_device(device.name) : std::nullopt;
    ranks.push_back(spec ? spec->rank : 0);
  }
  return ranks;
}

std::vector<bool> classes_measured_busy(const Profile& profile) {
  std::vector<bool> busy_classes;
  for (const DeviceClass& device_class : profile.classes) {
    bool busy = false;
    for (const LayerCosts& costs : device_class.layers)
      for (const LayerCost& cost : costs.by_samples) busy = busy || !cost.forward_busy.empty() || !cost.backward_busy.empty();
    busy_classes.push_back(busy);
  }
  return busy_classes;
}

}  // namespace

CostModel::CostModel(const Profile& profile)
    : profile_(with_costs(profile)),
      tensors_(profile_),
      memory_(profile_),
      copies_(profile_),
      may_cut_(allowed_cuts(profile_)),
      times_(time_curves(profile_)),
      ranks_(ranks_of_devices(profile_)),
      bound_(*this) {
  planner::Neighbours neighbours = planner::neighbours_of(profile_, classes_measured_busy(profile_));
  neighbours_ = std::move(neighbours.others);
  weights_ = std::move(neighbours.weights);
}

CostModel::CostModel(const Profile& profile, const ExecutionVariant& variant) : CostModel(planner::in_variant(profile, variant)) {}

CostModel::CostModel(const Profile& profile, const Plan& plan) : CostModel(planner::in_variant_of(profile, plan)) {}

ExecutionVariant CostModel::variant() const {
  ExecutionVariant variant;
  for (int device = 0; device < static_cast<int>(profile_.devices.size()); ++device) {
    const ExecutionVariant& measured = device_class(device).variant;
    if (device == 0) variant.memory_format = measured.memory_format;
    variant.replaces_slow_kernels = variant.replaces_slow_kernels || measured.replaces_slow_kernels;
    variant.threads = std::max(variant.threads, measured.threads);
  }
  return variant;
}

int CostModel::device_index(const std::string& name) const {
  for (std::size_t d = 0; d < profile_.devices.size(); ++d)
    if (profile_.devices[d].name == name) return static_cast<int>(d);
  throw planner::PlanError("the profile does not know device " + name, profile_.model, "profile with this device among `devices`");
}

std::vector<int> CostModel::device_indices(const std::vector<std::string>& names) const {
  std::vector<int> indices;
  if (names.size() < kMostSearchedNames) {
    for (const std::string& name : names) indices.push_back(device_index(name));
    return indices;
  }
  std::unordered_map<std::string_view, int> known;
  for (std::size_t d = 0; d < profile_.devices.size(); ++d) known.try_emplace(profile_.devices[d].name, static_cast<int>(d));
  for (const std::string& name : names) {
    const auto found = known.find(name);
    indices.push_back(found != known.end() ? found->second : device_index(name));
  }
  return indices;
}

bool CostModel::in_host_memory(int device) const {
  if (!profile_.network.empty()) return false;  // hosts do not read each other's memory
  const auto kind = class_kind(device_class(device).name);
  return kind == DeviceSpec::Kind::cpu || kind == DeviceSpec::Kind::sleep;
}

bool CostModel::extrapolated(int device, int samples) const {
  for (int layer = 0; layer < layers(); ++layer)
    if (times(device, layer).extrapolates(samples)) return true;
  return false;
}

bool CostModel::assumes_halves() const {
  return std::ranges::any_of(times_, &TimeCurve::assumes_halves);
}

double CostModel::fused_weight_seconds(int device, int layer, std::span<const int> samples) const {
  double single_s = 0;
  int all = 0;
  for (const int size : samples) {
    single_s += this->layer(device, layer, size).backward_weight_s;
    all += size;
  }
  if (samples.size() < 2 || !memory_.split_memory_measured(device)) return single_s;
  const double share = std::max(0.0, memory_.split_memory(device, layer, std::ranges::max(samples)).fused_share);
  return share * this->layer(device, layer, all).backward_weight_s + (1 - share) * single_s;
}

double CostModel::optimizer_seconds(int device, int layer) const {
  const auto bytes = static_cast<double>(parameters_bytes(layer, layer + 1));
  return planner::in_whole_ns(device_class(device).optimizer_seconds_per_byte * bytes);
}

std::vector<std::int64_t> CostModel::peak_bytes(const Plan& plan) const {
  return planner::peak_bytes(plan, *this);
}

std::int64_t CostModel::peak_bytes(const Plan& plan, int device) const {
  return planner::peak_bytes(plan, *this, device);
}

}  // namespace mptune
