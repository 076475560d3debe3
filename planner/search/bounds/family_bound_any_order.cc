#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "planner/search/bounds/family_bound.h"
#include "profiler/base/index.h"

namespace mptune::planner {
namespace {

std::vector<int> first_devices(const std::vector<std::vector<int>>& stages) {
  std::vector<int> devices;
  for (const std::vector<int>& stage : stages) devices.push_back(stage.front());
  return devices;
}

}  // namespace

// Adds the copies of one micro-batch, on the fastest link between neighbouring stages.
void FamilyBound::add_copies(const std::vector<std::vector<int>>& stages, const std::vector<int>& sizes, FamilyWork& work) const {
  std::set<std::pair<int, int>> links;
  for (std::size_t s = 1; s < stages.size(); ++s)
    if (stages[s] != stages[s - 1]) links.emplace(stages[s - 1].front(), stages[s].front());
  work.sender_copies = std::ranges::all_of(links, [&](const auto& link) {
    return cost_.copies().sender_copies(link.first, link.second) && cost_.copies().sender_copies(link.second, link.first);
  });
  work.send.assign(as_index(cost_.layers()) + 1, std::numeric_limits<double>::infinity());
  work.send_in = work.send;
  for (int cut = 1; cut < cost_.layers(); ++cut) {
    if (!cost_.may_cut(cut)) continue;
    double& send = work.send[as_index(cut)];
    double& send_in = work.send_in[as_index(cut)];
    for (const int samples : std::set<int>{sizes.front(), sizes.back()}) {
      const std::int64_t output = cost_.boundary_bytes(cut, samples, false);
      const std::int64_t gradient = cost_.boundary_bytes(cut, samples, true);
      for (const auto& [from, to] : links) {
        send = std::min(send, cost_.copy_seconds(from, to, output) * 1e9);
        send_in = std::min(send_in, cost_.copy_seconds(to, from, gradient) * 1e9);
      }
    }
    if (links.empty()) send = send_in = 0;
  }
}

FamilyWork FamilyBound::work_of(const std::vector<std::vector<int>>& stages, const std::vector<int>& sizes, bool splits) {
  const std::vector<int> devices = united(stages);
  const Sums& fastest = sums(devices, sizes, splits);
  FamilyWork work{fastest.once_out,
                  fastest.once_in,
                  fastest.all,
                  fastest.back,
                  {},
                  {},
                  std::numeric_limits<double>::infinity(),
                  static_cast<double>(sizes.size())};
  for (const int device : devices) work.action = std::min(work.action, cost_.action_seconds(device) * 1e9);
  add_copies(stages, sizes, work);
  return work;
}

std::int64_t FamilyBound::of_any_order(const std::vector<std::vector<int>>& stages, const std::vector<int>& sizes, bool splits) {
  const std::vector<int> devices = united(stages);
  double step_cost = std::numeric_limits<double>::infinity();
  for (const int device : devices) step_cost = std::min(step_cost, cost_.step_seconds(device) * 1e9);
  const FamilyWork work = work_of(stages, sizes, splits);
  const double operations = 4 * work.microbatches * static_cast<double>(stages.size());
  return rounded(least_step_ns(first_devices(stages), work, splits) + least_end_ns(devices), step_cost, operations);
}

std::vector<int> FamilyBound::suited_cuts(const std::vector<std::vector<int>>& stages, const std::vector<int>& sizes, bool splits,
                                          double evenness, const std::vector<int>& cuts) {
  return planner::suited_cuts(first_devices(stages), work_of(stages, sizes, splits), splits, evenness, cuts);
}

}  // namespace mptune::planner
