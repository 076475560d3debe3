#include "planner/cost/cost_model.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "planner/cost/neighbours.h"
#include "planner/cost/variants.h"
#include "profiler/base/device_spec.h"
#include "profiler/base/error.h"
#include "profiler/base/index.h"

namespace mptune {
namespace {

constexpr const char* kRemedy = "profile the model again";
constexpr std::size_t kMostSearchedNames = 16;  // more names than this are looked up in a table

double median_or(const Samples& samples, double otherwise) {
  return samples.empty() ? otherwise : std::max(0.0, median(samples));
}

bool has_halves(const LayerCost& cost) {
  return !cost.backward_input.empty() && !cost.backward_weight.empty();
}

// The whole backward as its input gradients and its weight gradients.
struct Halves {
  double input = 0;
  double weight = 0;
};

// Returns the shares of both halves as measured at the nearest size.
std::optional<Halves> measured_halves(const std::vector<LayerCost>& costs, int samples) {
  const LayerCost* nearest = nullptr;
  for (const LayerCost& cost : costs) {
    if (!has_halves(cost) || median_or(cost.backward, 0) <= 0) continue;
    if (nearest == nullptr || std::abs(cost.samples - samples) < std::abs(nearest->samples - samples)) nearest = &cost;
  }
  if (nearest == nullptr) return std::nullopt;
  const double whole = median(nearest->backward);
  return Halves{median_or(nearest->backward_input, 0) / whole, median_or(nearest->backward_weight, 0) / whole};
}

bool has_parameters(const ProfileLayer& layer) {
  return layer.parameters > 0 || layer.parameters_bytes > 0;
}

// Returns the bytes of a tensor: "3x64x64:float32" -> 3 * 64 * 64 * 4; "scalar:int64" -> 8.
std::int64_t bytes_of_tensor(const std::string& shape) {
  const std::size_t colon = std::min(shape.find(':'), shape.size());
  const std::string type = shape.substr(std::min(colon + 1, shape.size()));
  std::int64_t bytes = type == "int64" || type == "float64" ? 8 : 4;
  if (shape.substr(0, colon) == "scalar") return bytes;
  const char* at = shape.data();
  const char* const end = shape.data() + colon;
  while (at < end) {
    std::int64_t extent = 0;
    const auto [next, error] = std::from_chars(at, end, extent);
    if (error != std::errc() || extent < 1 || bytes > (std::int64_t{1} << 50) / extent) return 0;
    bytes *= extent;
    at = next + 1;
  }
  return shape.empty() ? 0 : bytes;
}

// Returns the bytes of all tensors: "words=64:int64,mask=64:int64" -> the sum of both.
std::int64_t bytes_of_shape(const std::string& input) {
  std::int64_t bytes = 0;
  for (std::size_t start = 0; start < input.size();) {
    const std::size_t end = std::min(input.find(',', start), input.size());
    const std::string tensor = input.substr(start, end - start);
    bytes += bytes_of_tensor(tensor.substr(tensor.find('=') + 1));
    start = end + 1;
  }
  return bytes;
}

double at_share(double low, double high, double share) {
  return low + (high - low) * share;
}

double in_whole_ns(double seconds) {
  return std::round(seconds * 1e9) / 1e9;
}

// An extrapolated line may reach zero. Below the smallest measured size, the least plausible value is in proportion to the samples; above
// the largest size it is the value at that size.
double between(double low, double high, double share, double proportional) {
  const double value = at_share(low, high, share);
  return share < 0 ? std::max(value, proportional) : share > 1 ? std::max(value, high) : value;
}

double time_between(double low, double high, double share, double proportional) {
  return in_whole_ns(between(low, high, share, proportional));
}

}  // namespace

CostModel::CostModel(const Profile& profile) : profile_(profile) {
  std::vector<bool> busy_classes;
  if (profile_.layers.empty()) throw Error("the profile has no layers", profile_.model, kRemedy);
  for (const DeviceClass& device_class : profile_.classes) {
    if (device_class.layers.size() != profile_.layers.size())
      throw Error("the profile has costs of " + std::to_string(device_class.layers.size()) + " of " +
                      std::to_string(profile_.layers.size()) + " layers",
                  "device class " + device_class.name, kRemedy);
    if (!(device_class.allocator_reserve >= 0 && device_class.allocator_reserve <= 100))
      throw Error("the allocator's reserve is not a fraction of the bytes in use", "device class " + device_class.name, kRemedy);
    bool busy = false;
    const auto first_point = static_cast<std::ptrdiff_t>(points_.size());
    for (int layer = 0; layer < layers(); ++layer) add_curve(device_class, layer);
    for (const LayerCosts& costs : device_class.layers)
      for (const LayerCost& cost : costs.by_samples) busy = busy || !cost.forward_busy.empty() || !cost.backward_busy.empty();
    busy_classes.push_back(busy);
    split_measured_.push_back(
        std::all_of(points_.begin() + first_point, points_.end(), [](const Point& point) { return point.held_bytes >= 0; }));
  }
  curve_starts_.push_back(points_.size());
  parameters_before_.push_back(0);
  for (const ProfileLayer& layer : profile_.layers) parameters_before_.push_back(parameters_before_.back() + layer.parameters_bytes);
  add_boundaries();
  add_links();
  forbid_cuts();
  planner::Neighbours neighbours = planner::neighbours_of(profile_, busy_classes);
  neighbours_ = std::move(neighbours.others);
  weights_ = std::move(neighbours.weights);
  input_bytes_per_sample_ = bytes_of_shape(profile_.fingerprint.input.empty() ? profile_.input : profile_.fingerprint.input);
  add_loads();
}

CostModel::CostModel(const Profile& profile, const ExecutionVariant& variant) : CostModel(planner::in_variant(profile, variant)) {}

CostModel::CostModel(const Profile& profile, const Plan& plan) : CostModel(planner::in_variant_of(profile, plan)) {}

ExecutionVariant CostModel::variant() const {
  ExecutionVariant variant;
  for (int device = 0; device < static_cast<int>(profile_.devices.size()); ++device) {
    const ExecutionVariant& measured = profile_.classes[class_of(device)].variant;
    if (device == 0) variant.memory_format = measured.memory_format;
    variant.replaces_slow_kernels = variant.replaces_slow_kernels || measured.replaces_slow_kernels;
    variant.threads = std::max(variant.threads, measured.threads);
  }
  return variant;
}

void CostModel::forbid_cuts() {
  may_cut_.assign(profile_.layers.size(), true);
  for (const ForbiddenCut& cut : profile_.forbidden_cuts) {
    if (cut.layer <= 0 || cut.layer >= layers())
      throw Error("no stage can begin at layer " + std::to_string(cut.layer) + ", which the profile forbids", profile_.model, kRemedy);
    may_cut_[as_index(cut.layer)] = false;
  }
}

void CostModel::add_curve(const DeviceClass& device_class, int layer) {
  curve_starts_.push_back(points_.size());
  std::vector<LayerCost> costs = device_class.layers[as_index(layer)].by_samples;
  std::sort(costs.begin(), costs.end(), [](const LayerCost& a, const LayerCost& b) { return a.samples < b.samples; });
  Point last;
  for (const LayerCost& cost : costs) {
    if (cost.samples < 1 || cost.forward.empty() || cost.backward.empty() || cost.samples == static_cast<int>(last.samples)) continue;
    Point point;
    point.samples = cost.samples;
    // A larger micro-batch may well be cheaper: libraries choose other kernels for it.
    point.times.forward_s = median_or(cost.forward, 0);
    point.times.backward_s = median_or(cost.backward, 0);
    point.times.forward_busy_s = std::max(point.times.forward_s, median_or(cost.forward_busy, 0));
    point.times.backward_busy_s = std::max(point.times.backward_s, median_or(cost.backward_busy, 0));
    const bool parameters = has_parameters(profile_.layers[static_cast<std::size_t>(layer)]);
    const std::optional<Halves> known = measured_halves(costs, cost.samples);
    const Halves share = known.value_or(parameters ? Halves{0.5, 0.5} : Halves{1, 0});
    point.times.backward_weight_s = has_halves(cost) ? median_or(cost.backward_weight, 0) : point.times.backward_s * share.weight;
    point.times.backward_input_s = has_halves(cost) ? median_or(cost.backward_input, 0) : point.times.backward_s * share.input;
    assumes_halves_ = assumes_halves_ || (!known && parameters);
    add_split(cost, points_.size() == curve_starts_.back(), last, point);
    point.saved_activation_bytes = std::max(last.saved_activation_bytes, static_cast<double>(cost.saved_activation_bytes));
    point.workspace_bytes = std::max(last.workspace_bytes, static_cast<double>(cost.workspace_bytes));
    if (cost.peaks) {
      point.bare_forward_bytes = std::max(last.bare_forward_bytes, static_cast<double>(cost.peaks->bare_forward_bytes));
      point.first_backward_bytes = std::max(last.first_backward_bytes, static_cast<double>(cost.peaks->first_backward_bytes));
      if (layer + 1 == layers()) loss_bytes_ = std::max(loss_bytes_, cost.output_bytes);
    }
    points_.push_back(point);
    last = point;
  }
  if (points_.size() == curve_starts_.back())
    throw Error("the profile has no cost of layer " + profile_.layers[as_index(layer)].name, "device class " + device_class.name, kRemedy);
}

// `last` is the point of the next smaller size, unless this is the first size.
void CostModel::add_split(const LayerCost& cost, bool first, const Point& last, Point& point) {
  if (cost.split) {
    const auto at_least = [&](std::int64_t bytes, double Point::*of) { point.*of = std::max(last.*of, static_cast<double>(bytes)); };
    at_least(cost.split->held_bytes, &Point::held_bytes);
    at_least(cost.split->held_input_bytes, &Point::held_input_bytes);
    at_least(cost.split->held_gradient_bytes, &Point::held_gradient_bytes);
    at_least(cost.split->input_workspace_bytes, &Point::input_workspace_bytes);
    at_least(cost.split->weight_workspace_bytes, &Point::weight_workspace_bytes);
    point.fused_share = cost.split->fused_share;
    point.fused_bytes = static_cast<double>(cost.split->fused_bytes);
  } else {
    // This size had no memory for the measurement: its bytes are taken in proportion to the samples.
    for (double Point::*bytes : {&Point::held_bytes, &Point::held_input_bytes, &Point::held_gradient_bytes, &Point::input_workspace_bytes,
                                 &Point::weight_workspace_bytes})
      point.*bytes = first ? 0 : last.*bytes * point.samples / last.samples;
    point.fused_share = std::min(last.fused_share, 0.0);
    point.fused_bytes = first ? 0 : last.fused_bytes * point.samples / last.samples;
    if (first || last.held_bytes < 0) point.held_bytes = -1;
  }
}

int CostModel::layers() const {
  return static_cast<int>(profile_.layers.size());
}

int CostModel::device_index(const std::string& name) const {
  for (std::size_t d = 0; d < profile_.devices.size(); ++d)
    if (profile_.devices[d].name == name) return static_cast<int>(d);
  throw Error("the profile does not know device " + name, profile_.model, "profile with this device among `devices`");
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
  const auto kind = kind_of(device);
  return kind == DeviceSpec::Kind::cpu || kind == DeviceSpec::Kind::sleep;
}

std::optional<DeviceSpec::Kind> CostModel::kind_of(int device) const {
  return class_kind(profile_.classes[class_of(device)].name);
}

std::size_t CostModel::class_of(int device) const {
  return as_index(profile_.devices[as_index(device)].device_class);
}

CostModel::Segment CostModel::segment(int device, int layer, int samples) const {
  const std::size_t curve = class_of(device) * profile_.layers.size() + as_index(layer);
  const Point* first = points_.data() + curve_starts_[curve];
  const Point* last = points_.data() + curve_starts_[curve + 1] - 1;
  if (first == last) return {nullptr, first, samples / first->samples};
  const Point* high = first + 1;
  while (high < last && high->samples < samples) ++high;
  const Point* low = high - 1;
  return {low, high, (samples - low->samples) / (high->samples - low->samples)};
}

LayerTimes CostModel::layer(int device, int layer, int samples) const {
  static constexpr Point kNothing{};
  const Segment at = segment(device, layer, samples);
  const LayerTimes& high = at.high->times;
  const LayerTimes& low = at.low == nullptr ? kNothing.times : at.low->times;
  const double part = at.low == nullptr ? 0 : samples / at.low->samples;
  LayerTimes times = {time_between(low.forward_s, high.forward_s, at.share, low.forward_s * part),
                      time_between(low.backward_s, high.backward_s, at.share, low.backward_s * part),
                      time_between(low.forward_busy_s, high.forward_busy_s, at.share, low.forward_busy_s * part),
                      time_between(low.backward_busy_s, high.backward_busy_s, at.share, low.backward_busy_s * part),
                      time_between(low.backward_input_s, high.backward_input_s, at.share, low.backward_input_s * part),
                      between(low.backward_weight_s, high.backward_weight_s, at.share, low.backward_weight_s * part)};
  // The halves have to add up to the whole, so their sum is rounded, not the second half.
  const double input = between(low.backward_input_s, high.backward_input_s, at.share, low.backward_input_s * part);
  times.backward_weight_s = in_whole_ns(in_whole_ns(input + times.backward_weight_s) - times.backward_input_s);
  // Extrapolated lines of different slopes may cross.
  times.forward_busy_s = std::max(times.forward_busy_s, times.forward_s);
  times.backward_busy_s = std::max(times.backward_busy_s, times.backward_s);
  return times;
}

bool CostModel::extrapolated(int device, int samples) const {
  const std::size_t first = class_of(device) * profile_.layers.size();
  for (std::size_t curve = first; curve < first + profile_.layers.size(); ++curve)
    if (samples < points_[curve_starts_[curve]].samples || samples > points_[curve_starts_[curve + 1] - 1].samples) return true;
  return false;
}

int CostModel::neighbours(int device) const {
  return neighbours_[as_index(device)];
}

double CostModel::action_seconds(int device) const {
  return profile_.classes[class_of(device)].action_seconds;
}

double CostModel::step_seconds(int device) const {
  return profile_.classes[class_of(device)].step_seconds;
}

double CostModel::optimizer_seconds(int device, int layer) const {
  const auto bytes = static_cast<double>(parameters_bytes(layer, layer + 1));
  return in_whole_ns(profile_.classes[class_of(device)].optimizer_seconds_per_byte * bytes);
}

bool CostModel::on_one_rank(std::span<const int> devices) const {
  return std::ranges::all_of(devices, [&](int device) { return rank_of(device) == rank_of(devices.front()); });
}

std::vector<int> CostModel::summing_replicas(std::span<const int> devices) const {
  if (!on_one_rank(devices)) return updating_replicas(devices);
  std::vector<int> all(kind_of(devices.front()) == DeviceSpec::Kind::cuda ? 1 : devices.size());
  std::iota(all.begin(), all.end(), 0);
  return all;
}

int CostModel::most_summing_replicas(int first_device, int replicas) const {
  const bool ranks = std::ranges::any_of(ranks_, [&](int rank) { return rank != ranks_.front(); });
  return !ranks && kind_of(first_device) == DeviceSpec::Kind::cuda ? 1 : replicas;
}

std::vector<int> CostModel::updating_replicas(std::span<const int> devices) const {
  const bool on_paper = !profile_.network.empty();
  std::set<int> ranks;
  std::vector<int> updating;
  for (std::size_t r = 0; r < devices.size(); ++r) {
    if (!on_paper && kind_of(devices[r]) != kind_of(devices.front())) return {0};
    if (ranks.insert(rank_of(devices[r])).second || on_paper) updating.push_back(static_cast<int>(r));
  }
  return updating;
}

double CostModel::replica_copies_seconds(std::span<const int> devices, int layer) const {
  if (!profile_.network.empty() || !on_one_rank(devices)) return 0;
  const int first = devices.front();
  const auto bytes = static_cast<double>(parameters_bytes(layer, layer + 1));
  const auto copies_s = [&](int from, int to) {
    const LinkCost& known = link(from, to);
    const double bytes_s = known.bytes_per_second > 0 ? bytes / known.bytes_per_second : 0;
    return profile_.layers[as_index(layer)].parameter_tensors * known.tensor_s + bytes_s;
  };
  double gradients_s = 0, parameters_s = 0;
  for (const int device : devices) {
    if (device == first || (in_host_memory(first) && in_host_memory(device))) continue;
    gradients_s += copies_s(device, first);
    parameters_s = std::max(parameters_s, copies_s(first, device));
  }
  return in_whole_ns(gradients_s + parameters_s);
}

double CostModel::replica_messages_seconds(std::span<const int> devices, std::int64_t bytes) const {
  if (on_one_rank(devices)) return 0;
  const std::vector<int> updating = updating_replicas(devices);
  const std::int64_t part = bytes / std::ssize(updating);
  double longest_s = 0;
  for (const int own : updating) {
    const int here = devices[as_index(own)];
    std::set<int> served{rank_of(here)};
    double seconds = 0;
    for (const int device : devices) {
      if (rank_of(device) == rank_of(here)) continue;
      seconds += copy_seconds(device, here, part);
      if (served.insert(rank_of(device)).second) seconds += copy_seconds(here, device, part);
    }
    longest_s = std::max(longest_s, seconds);
  }
  return longest_s;
}

double CostModel::reduce_seconds(int device, int layer, int replicas, int summing) const {
  const auto bytes = static_cast<double>(parameters_bytes(layer, layer + 1));
  return in_whole_ns(profile_.classes[class_of(device)].reduce_seconds_per_byte * bytes * (replicas - 1) / summing);
}

std::int64_t CostModel::parameters_bytes(int first_layer, int last_layer) const {
  std::int64_t bytes = parameters_before_[as_index(last_layer)] - parameters_before_[as_index(first_layer)];
  for (const TiedParameters& tied : profile_.tied_parameters)
    if (tied.earlier_layer >= first_layer && tied.layer < last_layer) bytes -= tied.bytes;
  return bytes;
}

double CostModel::bytes_at(int device, int layer, int samples, double Point::*bytes) const {
  const Segment at = segment(device, layer, samples);
  const double low = at.low == nullptr ? 0 : at.low->*bytes;
  return between(low, at.high->*bytes, at.share, at.low == nullptr ? 0 : low * samples / at.low->samples);
}

double CostModel::fused_weight_seconds(int device, int layer, std::span<const int> samples) const {
  double single_s = 0;
  int all = 0;
  for (const int size : samples) {
    single_s += this->layer(device, layer, size).backward_weight_s;
    all += size;
  }
  if (samples.size() < 2 || !split_memory_measured(device)) return single_s;
  const double share = std::max(0.0, split_memory(device, layer, std::ranges::max(samples)).fused_share);
  return share * this->layer(device, layer, all).backward_weight_s + (1 - share) * single_s;
}

}  // namespace mptune
