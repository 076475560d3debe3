#include "planner/search/bounds/stages_bound.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "planner/search/bounds/packing.h"
#include "profiler/base/index.h"

namespace mptune::planner {
namespace {

constexpr double kFar = std::numeric_limits<double>::infinity();
constexpr int kSteps = 4;         // rounds of the packing problem, each with the room of the step that the last one found
constexpr double kEnough = 1e-4;  // the rounds end where the step gets longer by no more than this share

// How often each stage's layers, and the cuts before it, lie on a path, or on a mean of several paths.
struct Counts {
  explicit Counts(std::size_t stages) : out(stages, 0), in(out), all(out), back(out), send(out), send_in(out) {}

  void add(const Counts& other, double weight) {
    const auto put = [&](std::vector<double>& mine, const std::vector<double>& more) {
      for (std::size_t s = 0; s < mine.size(); ++s) mine[s] += weight * more[s];
    };
    put(out, other.out);
    put(in, other.in);
    put(all, other.all);
    put(back, other.back);
    put(send, other.send);
    put(send_in, other.send_in);
    actions += weight * other.actions;
  }

  std::vector<double> out, in, all, back, send, send_in;  // counts for the sums of FamilyWork
  double actions = 0;
};

// Nothing is copied to a stage on the same device.
bool receives(const std::vector<int>& devices, std::size_t s) {
  return s > 0 && devices[s] != devices[s - 1];
}

// Returns how many copies of the gradients of a stage's input the sending device makes. The last copy is on the path anyway, unless the
// path ends with a weight gradient.
double sent_gradients(const FamilyWork& work, bool splits) {
  return !work.sender_copies ? 0 : splits ? work.microbatches : work.microbatches - 1;
}

// Returns the path of the work of the stages from `s` on that are on the device of `s`.
Counts work_from(const std::vector<int>& devices, const FamilyWork& work, bool splits, std::size_t s) {
  Counts path(devices.size());
  for (std::size_t t = 0; t < s; ++t) {
    path.out[t] = 1;
    path.in[t] = splits ? 0 : 1;
    path.send[t + 1] = receives(devices, t + 1) ? 1 : 0;
    path.send_in[t + 1] = splits ? 0 : path.send[t + 1];
    path.actions += splits ? 1 : 2;
  }
  for (std::size_t t = s; t < devices.size(); ++t) {
    if (devices[t] != devices[s]) continue;
    path.all[t] = 1;
    path.actions += 2 * work.microbatches;
    if (receives(devices, t)) path.send_in[t] += sent_gradients(work, splits);
    if (work.sender_copies && t + 1 < devices.size() && receives(devices, t + 1)) path.send[t + 1] += work.microbatches;
  }
  return path;
}

// Returns the path of the gradients of the stages up to `s` that are on the device of `s`.
Counts gradients_upto(const std::vector<int>& devices, const FamilyWork& work, bool splits, std::size_t s) {
  Counts path(devices.size());
  const auto first = as_index(std::find(devices.begin(), devices.end(), devices[s]) - devices.begin());
  for (std::size_t t = 0; t < devices.size(); ++t) {
    const bool comes_back = t > s || (!splits && t < first);
    path.out[t] = 1;
    path.in[t] = comes_back ? 1 : 0;
    path.actions += comes_back ? 2 : 1;
    path.send[t] = receives(devices, t) ? 1 : 0;
    path.send_in[t] = t > s || (!splits && t <= first) ? path.send[t] : 0;
    if (t > s || devices[t] != devices[s]) continue;
    path.back[t] = 1;
    path.actions += work.microbatches;
    if (receives(devices, t)) path.send_in[t] += sent_gradients(work, splits);
  }
  return path;
}

double mean_of_cuts(const std::vector<double>& sends) {
  double sum = 0;
  double count = 0;
  for (const double ns : sends) {
    if (!std::isfinite(ns)) continue;
    sum += ns;
    ++count;
  }
  return count > 0 ? sum / count : 0;
}

// Returns the paths as rows of a packing problem: with layers all alike, a stage with a share of the layers adds that share of what all
// would.
Packing small_layers(const std::vector<Counts>& paths, const FamilyWork& work) {
  Packing problem;
  for (const Counts& path : paths) {
    std::vector<double>& row = problem.rows.emplace_back();
    for (std::size_t s = 0; s < path.out.size(); ++s)
      row.push_back(
          (path.out[s] * work.out.back() + path.in[s] * work.in.back() + path.all[s] * work.all.back() + path.back[s] * work.back.back()) /
          work.all.back());
  }
  return problem;
}

// Returns the part of the path that does not depend on the shares of the stages.
double fixed_ns(const Counts& path, const FamilyWork& work) {
  const auto count = [](const std::vector<double>& counts) { return std::accumulate(counts.begin(), counts.end(), 0.0); };
  return path.actions * work.action + count(path.send) * mean_of_cuts(work.send) + count(path.send_in) * mean_of_cuts(work.send_in);
}

// Returns the least length over all cuts.
double least_ns(const Counts& mean, const FamilyWork& work) {
  const std::size_t layers = work.all.size() - 1;
  std::vector<double> rest(layers + 1, kFar);
  rest[layers] = 0;
  for (std::size_t s = mean.out.size(); s-- > 0;) {
    const auto upto = [&](std::size_t layer) {
      return mean.out[s] * work.out[layer] + mean.in[s] * work.in[layer] + mean.all[s] * work.all[layer] + mean.back[s] * work.back[layer];
    };
    double least = kFar;  // the least over all ends after a layer
    for (std::size_t layer = layers + 1; layer-- > 0;) {
      const double behind = upto(layer) + rest[layer];
      const double copies =
          s > 0 && std::isfinite(work.send[layer]) ? mean.send[s] * work.send[layer] + mean.send_in[s] * work.send_in[layer] : 0;
      const bool begins = s > 0 ? layer > 0 && std::isfinite(work.send[layer]) : layer == 0;
      rest[layer] = begins ? least - upto(layer) + copies : kFar;
      least = std::min(least, behind);
    }
  }
  return rest[0] + mean.actions * work.action;
}

}  // namespace

double least_step_ns(const std::vector<int>& devices, const FamilyWork& work, bool splits) {
  std::vector<Counts> paths;
  for (std::size_t s = 0; s < devices.size(); ++s) {
    paths.push_back(work_from(devices, work, splits, s));
    paths.push_back(gradients_upto(devices, work, splits, s));
  }
  Packing problem = small_layers(paths, work);
  std::vector<double> fixed;
  for (const Counts& path : paths) fixed.push_back(fixed_ns(path, work));
  const double least_room = work.all.back() * 1e-6;
  double bound = 0;
  double step = work.all.back() / static_cast<double>(std::set<int>(devices.begin(), devices.end()).size());
  for (int round = 0; round < kSteps; ++round) {
    problem.room.clear();
    for (const double ns : fixed) problem.room.push_back(std::max(least_room, step - ns) / work.all.back());
    const std::vector<double> weights = packing_prices(problem);
    Counts mean(devices.size());
    double prices = 0;
    double fixed_price = 0;
    for (std::size_t p = 0; p < paths.size(); ++p) {
      mean.add(paths[p], weights[p]);
      prices += weights[p];
      fixed_price += weights[p] * fixed[p];
    }
    bound = std::max(bound, least_ns(mean, work) / prices);
    const double longer = (work.all.back() + fixed_price) / prices;
    if (longer <= step * (1 + kEnough)) break;
    step = longer;
  }
  return bound;
}

}  // namespace mptune::planner
