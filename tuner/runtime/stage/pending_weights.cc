#include "tuner/runtime/stage/pending_weights.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "tuner/runtime/graph/channel.h"

namespace mptune::tuner {

PendingWeights::PendingWeights(const Groups& order) : order_(order), left_(order.size()) {
  for (Position at = 0; at < order.size(); ++at)
    for (const int microbatch : order[at]) position_of_[microbatch] = at;
  reset();
}

void PendingWeights::add(int microbatch, profiler::WeightGradients gradients) {
  const Position position = position_of_.at(microbatch);
  bool any = false;
  {
    const std::lock_guard lock(mutex_);
    for (auto& gradient : gradients) {
      const WeightKey key = gradient->weight().unsafeGetTensorImpl();
      ByMicrobatch& waiting = weights_[key].waiting[position];
      if (waiting.empty()) ++left_[position];
      waiting.emplace(microbatch, std::move(gradient));
    }
    --missing_[position];
    while (there_up_to_ < missing_.size() && missing_[there_up_to_] == 0) ++there_up_to_;
    for (auto& [key, weight] : weights_) any |= make_ready(weight);
  }
  tell(any);
}

bool PendingWeights::make_ready(Weight& weight) {
  if (weight.busy || weight.waiting.empty() || weight.waiting.begin()->first >= there_up_to_) return false;
  auto next = weight.waiting.extract(weight.waiting.begin());
  const std::vector<int>& group = order_[next.key()];
  Ready ready{{{}, next.mapped().begin()->second->weight(), group.front(), group.back() - group.front()}, next.key()};
  double work = 0;
  for (auto& [microbatch, gradient] : next.mapped()) {
    work += gradient->multiplications();
    ready.taken.gradients.push_back(std::move(gradient));
  }
  ready_.emplace(work, std::move(ready));
  weight.busy = true;
  return true;
}

std::optional<PendingWeights::Taken> PendingWeights::taken(std::multimap<double, Ready>::iterator at) {
  std::optional<Taken> result;
  result.emplace(std::move(at->second.taken));
  ready_.erase(at);
  return result;
}

std::optional<PendingWeights::Taken> PendingWeights::take(Size first) {
  const std::lock_guard lock(mutex_);
  if (ready_.empty() || cancelled_) return std::nullopt;
  return taken(first == Size::smallest ? ready_.begin() : std::prev(ready_.end()));
}

std::optional<PendingWeights::Taken> PendingWeights::take_up_to(int microbatch) {
  const Position last = position_of_.at(microbatch);
  std::unique_lock lock(mutex_);
  while (true) {
    if (cancelled_) throw StepCancelled();
    const auto found = std::ranges::find_if(ready_, [&](const auto& ready) { return ready.second.position <= last; });
    if (found != ready_.end()) return taken(found);
    const auto end = left_.begin() + static_cast<std::ptrdiff_t>(std::min(last + 1, there_up_to_));
    if (std::all_of(left_.begin(), end, [](std::size_t left) { return left == 0; })) return std::nullopt;
    changed_.wait(lock);
  }
}

void PendingWeights::done(const Taken& taken) {
  bool more = false;
  {
    const std::lock_guard lock(mutex_);
    --left_[position_of_.at(taken.microbatch)];
    Weight& weight = weights_.at(taken.weight.unsafeGetTensorImpl());
    weight.busy = false;
    more = make_ready(weight);
  }
  changed_.notify_all();
  tell(more);
}

bool PendingWeights::holds(const at::Tensor& weight) const {
  const std::lock_guard lock(mutex_);
  const auto found = weights_.find(weight.unsafeGetTensorImpl());
  return found != weights_.end() && (found->second.busy || !found->second.waiting.empty());
}

bool PendingWeights::empty() const {
  const std::lock_guard lock(mutex_);
  return std::ranges::all_of(left_, [](std::size_t left) { return left == 0; });
}

void PendingWeights::cancel() {
  {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
  }
  changed_.notify_all();
}

void PendingWeights::reset() {
  const std::lock_guard lock(mutex_);
  weights_.clear();
  ready_.clear();
  missing_.clear();
  for (const std::vector<int>& group : order_) missing_.push_back(group.size());
  left_.assign(order_.size(), 0);
  there_up_to_ = 0;
  cancelled_ = false;
}

}  // namespace mptune::tuner
