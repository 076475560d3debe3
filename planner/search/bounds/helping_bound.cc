#include "planner/search/bounds/helping_bound.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "profiler/base/index.h"

namespace mptune::planner {
namespace {

struct Work {
  double forward = std::numeric_limits<double>::infinity();
  double input = forward;
  double both = forward;  // halves or whole of the backward
};

Work least_work(const CostModel& cost, const std::set<int>& devices, int layer, int samples) {
  Work least;
  for (const int device : devices) {
    const LayerTimes times = cost.layer(device, layer, samples);
    least.forward = std::min(least.forward, times.forward_s * 1e9);
    least.input = std::min({least.input, times.backward_s * 1e9, times.backward_input_s * 1e9});
    least.both = std::min({least.both, times.backward_s * 1e9, (times.backward_input_s + times.backward_weight_s) * 1e9});
  }
  return least;
}

}  // namespace

HelpingBound::HelpingBound(const CostModel& cost, std::vector<std::vector<int>> stages, const std::vector<int>& sizes)
    : stages_(std::move(stages)), microbatches_(sizes.size()) {
  std::set<int> devices;
  for (const std::vector<int>& stage : stages_) devices.insert(stage.begin(), stage.end());
  action_ns_ = step_ns_ = std::numeric_limits<double>::infinity();
  for (const int device : devices) {
    action_ns_ = std::min(action_ns_, cost.action_seconds(device) * 1e9);
    step_ns_ = std::min(step_ns_, cost.step_seconds(device) * 1e9);
  }
  std::map<int, int> counts;
  for (const int samples : sizes) ++counts[samples];
  for (int layer = 0; layer < cost.layers(); ++layer) {
    Work once;
    double all = 0;
    double own = 0;
    for (const auto& [samples, count] : counts) {
      const Work work = least_work(cost, devices, layer, samples);
      all += count * (work.forward + work.both);
      own += count * (work.forward + work.input);
      once = {std::min(once.forward, work.forward), std::min(once.input, work.input), 0};
    }
    all_.push_back(all_.back() + all);
    own_.push_back(own_.back() + own);
    out_.push_back(out_.back() + once.forward);
    back_.push_back(back_.back() + once.input);
  }
}

std::int64_t HelpingBound::of(const std::vector<int>& cuts) const {
  struct Device {
    double head = 0;
    double own = 0;
    double tail = 0;
  };
  std::map<int, Device> devices;
  const auto first = [&](std::size_t s) { return s == 0 ? std::size_t{0} : as_index(cuts[s - 1]); };
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    const double before = action_ns_ * static_cast<double>(s);
    const std::size_t end = s == cuts.size() ? own_.size() - 1 : first(s + 1);
    const double work = own_[end] - own_[first(s)] + 2 * action_ns_ * static_cast<double>(microbatches_);
    for (const int d : stages_[s]) {
      const auto [known, is_new] = devices.try_emplace(d);
      if (is_new) known->second = {out_[first(s)] + before, 0, back_[first(s)]};
      known->second.own += stages_[s].size() == 1 ? work : 0;
    }
  }
  double together = all_.back() + 2 * action_ns_ * static_cast<double>(microbatches_ * stages_.size());
  double longest = 0;
  for (const auto& [index, device] : devices) {
    together += device.head;
    longest = std::max(longest, device.head + device.own + device.tail);
  }
  // Every operation is rounded to the nanosecond.
  const double slack = 4 * static_cast<double>(microbatches_ * stages_.size()) + 6;
  const double bound = std::max(longest, together / static_cast<double>(devices.size()));
  return static_cast<std::int64_t>(std::floor(std::max(0.0, bound * (1 - 1e-9) + step_ns_ - slack)));
}

}  // namespace mptune::planner
