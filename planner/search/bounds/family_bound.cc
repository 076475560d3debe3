#include "planner/search/bounds/family_bound.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "planner/cost/replica_costs.h"
#include "profiler/base/index.h"

namespace mptune::planner {
namespace {

constexpr int kHalvings = 40;
constexpr int kQuantiles = 32;

// A stage of the bound: sums over its devices, and the fixed costs of its actions.
struct ProbeStage {
  const std::vector<double>* all = nullptr;
  const std::vector<double>* end = nullptr;  // costs at the end of the step
  double replicas = 1;
  double actions = 0;  // fixed costs of the actions of all its micro-batches
  double copies = 0;   // copies before and after its work, of one micro-batch
};

// Returns the furthest end of a stage that begins at layer `first`, if the step takes at most `step`; -1 where it cannot begin in time.
int furthest_end(const ProbeStage& stage, const std::vector<double>& before, int first, double step) {
  const double left = step - before[as_index(first)] - stage.copies - stage.actions;
  if (left < 0) return -1;
  const auto upto = [&](int layer) {
    return (*stage.all)[as_index(layer)] / stage.replicas + (stage.end == nullptr ? 0 : (*stage.end)[as_index(layer)]);
  };
  const double limit = upto(first) + left;
  int last = first;
  for (int beyond = static_cast<int>(before.size()); last + 1 < beyond;) {
    const int middle = last + (beyond - last) / 2;
    (upto(middle) <= limit ? last : beyond) = middle;
  }
  return last;
}

// Finds the first layers of all stages but the first. Returns false where the step time is too short.
bool probe(const std::vector<ProbeStage>& stages, const std::vector<double>& before, double step, std::vector<int>& cuts) {
  cuts.clear();
  int first = 0;
  for (const ProbeStage& stage : stages) {
    first = furthest_end(stage, before, first, step);
    if (first < 0) return false;
    if (as_index(first) + 1 >= before.size()) return true;
    cuts.push_back(first);
  }
  return false;
}

// True if some stages with at most stages.size() devices in all, one or several each, work off all layers. `stages`: with 1, 2, 3 ..
// devices.
bool any_shape_takes(const std::vector<ProbeStage>& stages, const std::vector<double>& before, double step) {
  std::vector<int> reached(stages.size() + 1, 0);  // by devices
  for (std::size_t used = 1; used < reached.size(); ++used) {
    reached[used] = reached[used - 1];
    for (std::size_t replicas = 1; replicas <= used; ++replicas)
      reached[used] = std::max(reached[used], furthest_end(stages[replicas - 1], before, reached[used - replicas], step));
  }
  return as_index(reached.back()) + 1 >= before.size();
}

// Returns the longest step that is not long enough, to within 2^-kHalvings of `high`, which is long enough.
template <typename Enough>
double longest_refused(double high, const Enough& enough) {
  double least = 0;
  for (int halving = 0; halving < kHalvings; ++halving) {
    const double middle = (least + high) / 2;
    (enough(middle) ? high : least) = middle;
  }
  return least;
}

// Several stages on a device: returns the least step over the work of one micro-batch, however that is shared out to the stages and in
// whatever order they run. Before a stage's first action a micro-batch passes the stages before, which takes at least `passing` of their
// work (and whole backwards pass them once more after its last action). Let the whole work be 1, a that of the stages from s on that are on
// the device of s, and r that of all stages from s on. Then no step is shorter than
//     passing * (1 - r) + m * a.
// So a step that is longer by `e` than `passing` has room for a <= (e + passing * r) / m on each device. Filling devices from the last
// stage on leaves every earlier stage most room.
double least_passes(const std::vector<std::vector<int>>& stages, double m, double passing) {
  int devices = 0;
  for (const std::vector<int>& stage : stages) devices = std::max(devices, stage.front() + 1);
  std::vector<double> on(as_index(devices), 0);  // each device, for e = 1
  double behind = 0;
  for (std::size_t s = stages.size(); s-- > 0;) {
    double& own = on[as_index(stages[s].front())];
    const double others = behind - own;
    own = (1 + passing * others) / (m - passing);
    behind = others + own;
  }
  return passing + 1 / behind;
}

// Measured separately, the two halves of a split backward may take less than the whole.
double least_backward_s(const LayerTimes& times, bool splits) {
  return splits ? std::min(times.backward_s, times.backward_input_s + times.backward_weight_s) : times.backward_s;
}

// Returns the least time of the part that the stage before waits for.
double least_input_s(const LayerTimes& times, bool splits) {
  return splits ? std::min(times.backward_s, times.backward_input_s) : times.backward_s;
}

// Layers whose work passes fast leave all work of other layers in place. Returns the best of some bounds without the fastest layers.
double of_filled_devices(const std::vector<std::vector<int>>& stages, double m, const std::vector<double>& all,
                         const std::vector<double>& passing) {
  std::vector<std::pair<double, double>> layers;  // what passes over work, and work, of one micro-batch on average
  for (std::size_t layer = 1; layer < all.size(); ++layer) {
    const double work = (all[layer] - all[layer - 1]) / m;
    if (work > 0) layers.emplace_back(std::min(1.0, (passing[layer] - passing[layer - 1]) / work), work);
  }
  std::sort(layers.begin(), layers.end(), std::greater<>());
  double best = 0;
  double work = 0;
  std::size_t next_try = layers.size() / 2;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    work += layers[i].second;
    if (i + 1 < next_try && i + 1 < layers.size()) continue;
    next_try = i + 1 + std::max<std::size_t>(1, layers.size() / kQuantiles);
    best = std::max(best, work * least_passes(stages, m, layers[i].first));
  }
  return best;
}

// Returns for each device the first stage that it runs.
std::map<int, std::size_t> first_stages(const std::vector<std::vector<int>>& stages) {
  std::map<int, std::size_t> first;
  for (std::size_t s = 0; s < stages.size(); ++s)
    for (const int device : stages[s]) first.emplace(device, s);
  return first;
}

// The first replica of a stage has no fewer micro-batches than others.
std::vector<int> of_first_replica(const std::vector<int>& sizes, std::size_t replicas) {
  std::vector<int> own;
  for (std::size_t i = 0; i < sizes.size(); i += replicas) own.push_back(sizes[i]);
  return own;
}

}  // namespace

// Every operation is rounded to the nanosecond; there are `operations` on a path.
std::int64_t FamilyBound::rounded(double least, double step_cost, double operations) {
  return static_cast<std::int64_t>(std::floor(std::max(0.0, least * (1 - 1e-9) + step_cost - operations - 6)));
}

std::vector<int> FamilyBound::united(const std::vector<std::vector<int>>& stages) {
  std::set<int> devices;
  for (const std::vector<int>& stage : stages) devices.insert(stage.begin(), stage.end());
  return {devices.begin(), devices.end()};
}

const FamilyBound::Sums& FamilyBound::sums(const std::vector<int>& devices, const std::vector<int>& sizes, bool splits) {
  std::map<int, int> of_class;
  for (const int device : devices) of_class.emplace(cost_.profile().devices[as_index(device)].device_class, device);
  std::vector<int> classes;
  for (const auto& [device_class, device] : of_class) classes.push_back(device_class);
  const auto key =
      std::pair(classes, std::vector<int>{sizes.front(), sizes.back(), static_cast<int>(sizes.size()),
                                          static_cast<int>(std::count(sizes.begin(), sizes.end(), sizes.front())), splits ? 1 : 0});
  const auto known = sums_.find(key);
  if (known != sums_.end()) return known->second;
  const auto large = static_cast<double>(std::count(sizes.begin(), sizes.end(), sizes.front()));
  const double small = static_cast<double>(sizes.size()) - large;
  Sums made;
  made.all = made.once = made.once_out = made.once_in = made.back = {0.0};
  for (int layer = 0; layer < cost_.layers(); ++layer) {
    double all = std::numeric_limits<double>::infinity();
    double once = all;
    double once_out = all;
    double once_in = all;
    double back = all;
    for (const auto& [device_class, device] : of_class) {
      const LayerTimes of_large = cost_.layer(device, layer, sizes.front());
      const LayerTimes of_small = cost_.layer(device, layer, sizes.back());
      const double large_s = of_large.forward_s + least_backward_s(of_large, splits);
      const double small_s = of_small.forward_s + least_backward_s(of_small, splits);
      all = std::min(all, large_s * large + small_s * small);
      once = std::min({once, of_large.forward_s + least_input_s(of_large, splits), of_small.forward_s + least_input_s(of_small, splits)});
      once_out = std::min({once_out, of_large.forward_s, of_small.forward_s});
      once_in = std::min({once_in, least_input_s(of_large, splits), least_input_s(of_small, splits)});
      back = std::min(back, least_backward_s(of_large, splits) * large + least_backward_s(of_small, splits) * small);
    }
    made.all.push_back(made.all.back() + all * 1e9);
    made.once.push_back(made.once.back() + once * 1e9);
    made.once_out.push_back(made.once_out.back() + once_out * 1e9);
    made.once_in.push_back(made.once_in.back() + once_in * 1e9);
    made.back.push_back(made.back.back() + back * 1e9);
  }
  return sums_.emplace(key, std::move(made)).first->second;
}

// Returns sums over the layers before an index: updates of parameters on the fastest of the devices, and sums over `replicas` replicas.
const std::vector<double>& FamilyBound::end_sums(const std::vector<int>& devices, int replicas) {
  const auto [entry, is_new] = end_sums_.try_emplace({devices, replicas}, 1, 0.0);
  std::vector<double>& sums = entry->second;
  for (int layer = 0; is_new && layer < cost_.layers(); ++layer) {
    double least = std::numeric_limits<double>::infinity();
    for (const int device : devices) {
      const int summing = most_summing_replicas(cost_, device, replicas);
      const double reduce_s = replicas > 1 ? reduce_seconds(cost_, device, layer, replicas, summing) : 0;
      least = std::min(least, reduce_s + cost_.optimizer_seconds(device, layer));
    }
    sums.push_back(sums.back() + least * 1e9);
  }
  return sums;
}

// Parameters are updated on one device after another, or on all at once: some device has an equal part of them.
double FamilyBound::least_end_ns(const std::vector<int>& devices) {
  double least = std::numeric_limits<double>::infinity();
  for (const int device : devices) least = std::min(least, end_sums({device}, 1).back());
  return least / static_cast<double>(devices.size());
}

// Returns the bytes over each cut that is allowed, of the largest and the smallest micro-batch; each number once.
const std::vector<std::int64_t>& FamilyBound::boundaries(const std::vector<int>& sizes, bool gradients) {
  const auto [entry, is_new] = boundaries_.try_emplace({sizes.front(), sizes.back(), gradients});
  std::vector<std::int64_t>& bytes = entry->second;
  for (int cut = 1; is_new && cut < cost_.layers(); ++cut) {
    if (!cost_.may_cut(cut)) continue;
    for (const int samples : {sizes.front(), sizes.back()}) bytes.push_back(cost_.boundary_bytes(cut, samples, gradients));
  }
  std::sort(bytes.begin(), bytes.end());
  bytes.erase(std::unique(bytes.begin(), bytes.end()), bytes.end());
  return bytes;
}

// A measured link may take less time for more bytes, so every size is tried.
double FamilyBound::least_copy_s(int from, int to, const std::vector<int>& sizes, bool gradients) {
  const auto [entry, is_new] = least_copies_.try_emplace({from, to, sizes.front(), sizes.back(), gradients}, 0.0);
  if (!is_new) return entry->second;
  double least = std::numeric_limits<double>::infinity();
  for (const std::int64_t bytes : boundaries(sizes, gradients)) least = std::min(least, cost_.copy_seconds(from, to, bytes));
  return entry->second = std::isfinite(least) ? least : 0;
}

// Returns the least time of one micro-batch over one cut, there and back: over any cut, on the fastest link between neighbouring stages.
double FamilyBound::least_copies_ns(const std::vector<std::vector<int>>& stages, const std::vector<int>& sizes, bool splits) {
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t s = 1; s < stages.size(); ++s) {
    for (const int from : stages[s - 1])
      for (const int to : stages[s])
        least = std::min(least, least_copy_s(from, to, sizes, false) + (splits ? 0 : least_copy_s(to, from, sizes, true)));
  }
  return std::isfinite(least) ? least * 1e9 : 0;
}

// Returns what the devices of a stage need to send one micro-batch's output and gradient over any cuts; 0 where others make these copies.
double FamilyBound::least_sending_ns(const std::vector<std::vector<int>>& stages, std::size_t s, const std::vector<int>& sizes) {
  const auto least_to = [&](std::size_t other, bool gradients) {
    double least = std::numeric_limits<double>::infinity();
    for (const int from : stages[s])
      for (const int to : stages[other])
        least = std::min(least, from != to && cost_.copies().sender_copies(from, to) ? least_copy_s(from, to, sizes, gradients) : 0);
    return least * 1e9;
  };
  return (s + 1 < stages.size() ? least_to(s + 1, false) : 0) + (s > 0 ? least_to(s - 1, true) : 0);
}

// Returns the nearest cuts that leave no stage empty and that the profile does not forbid; none where it allows too few.
std::vector<int> FamilyBound::allowed(std::vector<int> cuts, int stages) const {
  std::vector<int> open;
  for (int layer = 1; layer < cost_.layers(); ++layer)
    if (cost_.may_cut(layer)) open.push_back(layer);
  const int wanted = stages - 1;
  if (static_cast<int>(open.size()) < wanted) return {};
  cuts.resize(as_index(wanted), cost_.layers());
  int next = 0;  // the first open cut that is not taken
  for (int c = 0; c < wanted; ++c) {
    const int most = static_cast<int>(open.size()) - (wanted - c);
    int at = next;
    while (at < most && open[as_index(at)] < cuts[as_index(c)]) ++at;
    cuts[as_index(c)] = open[as_index(at)];
    next = at + 1;
  }
  return cuts;
}

FamilyBound::Facts FamilyBound::facts_of(const std::vector<std::vector<int>>& stages, const std::vector<int>& sizes, bool splits,
                                         bool helps) {
  const std::vector<int> devices = united(stages);
  Facts facts{stages, sizes, splits, helps, sums(devices, sizes, splits)};
  for (const std::vector<int>& stage : stages) facts.seats += stage.size();
  facts.shares_devices = facts.seats > devices.size();
  facts.devices = static_cast<double>(devices.size());
  facts.m = static_cast<double>(sizes.size());
  facts.between = static_cast<double>(stages.size() - 1);
  facts.copies = least_copies_ns(stages, sizes, splits);
  facts.action = facts.step_cost = std::numeric_limits<double>::infinity();
  for (const int device : devices) {
    facts.action = std::min(facts.action, cost_.action_seconds(device) * 1e9);
    facts.step_cost = std::min(facts.step_cost, cost_.step_seconds(device) * 1e9);
  }
  facts.pass = 2 * facts.action;
  facts.end = least_end_ns(devices);
  for (std::size_t s = 0; s < stages.size(); ++s) facts.sending.push_back(least_sending_ns(stages, s, sizes));
  facts.everything = facts.fastest.all.back() + facts.pass * facts.m * (facts.between + 1) +
                     facts.m * std::accumulate(facts.sending.begin(), facts.sending.end(), 0.0);
  return facts;
}

// Until a micro-batch is through forward, no gradient is ready, and each micro-batch is on one device. So fewer micro-batches than devices
// leave devices idle, and all backward over all devices follows.
double FamilyBound::of_any_rows(const Facts& facts) {
  const Sums& fastest = facts.fastest;
  const double once = fastest.once.back() + facts.pass * (facts.between + 1);
  const double waiting = std::max(0.0, facts.devices - facts.m) * fastest.once_out.back();
  const double first_gradient = fastest.once_out.back() + (least_copies_ns(facts.stages, facts.sizes, true) + facts.action) * facts.between;
  const double back = fastest.back.back() + facts.action * facts.m * (facts.between + 1);
  return std::max({once, (facts.everything + waiting) / facts.devices, first_gradient + back / facts.devices});
}

// Idle devices that help compute weight gradients of any stage, so all work goes over all devices. Each is idle until a micro-batch reaches
// its first stage, as no weight gradient is ready before.
double FamilyBound::everything_and_idle(const Facts& facts) {
  double everything = facts.everything;
  if (!facts.helps) return everything;
  for (const auto& [device, s] : first_stages(facts.stages))
    everything += facts.fastest.once_out[s] + (facts.action + facts.copies) * static_cast<double>(s);
  return everything;
}

double FamilyBound::of_shared_devices(const Facts& facts) {
  const Sums& fastest = facts.fastest;
  double low = 0;
  if (!facts.splits) low = everything_and_idle(facts) / facts.m;  // a micro-batch is on one device at a time, or between two
  if (!facts.helps && facts.m > 1 && facts.seats == facts.stages.size())
    low = std::max(low, of_filled_devices(facts.stages, facts.m, fastest.all, facts.splits ? fastest.once_out : fastest.once));
  return low;
}

// Returns cuts that give each stage the same work on the fastest device.
std::vector<int> FamilyBound::equal_shares(const Facts& facts) {
  const std::vector<double>& all = facts.fastest.all;
  std::vector<int> cuts;
  for (std::size_t s = 1; s < facts.stages.size(); ++s) {
    const double share = all.back() * static_cast<double>(s) / static_cast<double>(facts.stages.size());
    cuts.push_back(static_cast<int>(std::upper_bound(all.begin(), all.end(), share) - all.begin()) - 1);
  }
  return cuts;
}

// Stage s with layers [a, b) cannot begin before one micro-batch is through the layers before a and, unless backward is split, not end
// before its gradient is back through them. In between, it works off all micro-batches, its first replica the most; then its gradients are
// summed over its replicas and its parameters updated. For a given step the most layers that each stage can take are found from left to
// right, as a larger `a` never moves the largest `b` to the left. One stage alone stands for any plan on its devices.
std::pair<double, std::vector<int>> FamilyBound::of_separate_devices(const Facts& facts) {
  std::vector<ProbeStage> probed;
  for (const std::vector<int>& stage : facts.stages) {
    const auto before = static_cast<double>(probed.size());
    const std::size_t shared_by = facts.stages.size() > 1 ? 1 : stage.size();
    const std::vector<int> of_first = of_first_replica(facts.sizes, stage.size() / shared_by);
    const std::vector<double>& all = sums(stage, of_first, facts.splits).all;
    const std::vector<double>* end_of_stage = facts.stages.size() > 1 ? &end_sums(stage, static_cast<int>(stage.size())) : nullptr;
    const auto first_m = static_cast<double>(of_first.size());
    // Unless backward is split, the gradient that is sent last is on the path after the stage's work.
    const double actions = (facts.pass * first_m + facts.sending[probed.size()] * (first_m - 1)) / static_cast<double>(shared_by);
    const double copies = (facts.copies + (facts.splits ? facts.action : facts.pass)) * before;
    probed.push_back({&all, end_of_stage, static_cast<double>(shared_by), actions, copies});
  }
  const std::vector<double>& before = facts.splits ? facts.fastest.once_out : facts.fastest.once;
  double high = facts.fastest.once.back();
  for (const ProbeStage& stage : probed)
    high += stage.all->back() + (stage.end == nullptr ? 0 : stage.end->back()) + stage.actions + stage.copies;
  std::vector<int> tried;
  std::vector<int> cuts;
  const double least = longest_refused(high, [&](double step) {
    const bool enough = probe(probed, before, step, tried);
    if (enough) cuts = tried;
    return enough;
  });
  return {least, std::move(cuts)};
}

FamilyBound::Bound FamilyBound::of(const std::vector<std::vector<int>>& stages, const std::vector<int>& sizes, bool splits, bool helps) {
  const Facts facts = facts_of(stages, sizes, splits, helps);
  double low = std::max(of_any_rows(facts), everything_and_idle(facts) / facts.devices);
  std::vector<int> cuts;
  if (facts.shares_devices) {
    low = std::max(low, of_shared_devices(facts)) + facts.end;
    cuts = equal_shares(facts);
  } else {
    double least = 0;
    std::tie(least, cuts) = of_separate_devices(facts);
    if (stages.size() == 1) low = std::max(low, least);
    low = std::max(low + facts.end, helps ? 0 : least);
  }
  return {rounded(low, facts.step_cost, 4 * facts.m + 4 * facts.between), allowed(std::move(cuts), static_cast<int>(stages.size()))};
}

std::int64_t FamilyBound::of_one_stage_per_device(const std::vector<int>& devices, const std::vector<int>& sizes) {
  const Sums& fastest = sums(devices, sizes, true);
  const auto m = static_cast<double>(sizes.size());
  double step_cost = std::numeric_limits<double>::infinity();
  for (const int device : devices) step_cost = std::min(step_cost, cost_.step_seconds(device) * 1e9);
  std::vector<ProbeStage> stages;
  for (int replicas = 1; replicas <= static_cast<int>(devices.size()); ++replicas)
    stages.push_back({&fastest.all, &end_sums(devices, replicas), static_cast<double>(replicas), 0, 0});
  const double high = fastest.once.back() + fastest.all.back() + stages.front().end->back();
  const double least = longest_refused(high, [&](double step) { return any_shape_takes(stages, fastest.once_out, step); });
  return rounded(least, step_cost, 4 * m + 4 * static_cast<double>(devices.size()));
}

}  // namespace mptune::planner
