#include "tuner/runtime/pending_weights.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "tuner/runtime/channel.h"

namespace mptune::tuner {

PendingWeights::PendingWeights(const std::vector<int>& order) : order_(order), there_(order.size()), left_(order.size()) {
  for (Position at = 0; at < order.size(); ++at) position_of_[order[at]] = at;
}

void PendingWeights::add(int microbatch, profiler::WeightGradients gradients) {
  const Position position = position_of_.at(microbatch);
  bool any = false;
  {
    const std::lock_guard lock(mutex_);
    left_[position] = gradients.size();
    for (auto& gradient : gradients) {
      const WeightKey key = gradient->weight().unsafeGetTensorImpl();
      weights_[key].waiting.emplace(position, std::move(gradient));
    }
    there_[position] = true;
    while (there_up_to_ < there_.size() && there_[there_up_to_]) ++there_up_to_;
    for (auto& [key, weight] : weights_) any |= make_ready(weight);
  }
  tell(any);
}

bool PendingWeights::make_ready(Weight& weight) {
  if (weight.busy || weight.waiting.empty() || weight.waiting.begin()->first >= there_up_to_) return false;
  auto next = weight.waiting.extract(weight.waiting.begin());
  const double work = next.mapped()->multiplications();
  ready_.emplace(work, Ready{std::move(next.mapped()), next.key()});
  weight.busy = true;
  return true;
}

std::optional<PendingWeights::Taken> PendingWeights::taken(std::multimap<double, Ready>::iterator at) {
  std::optional<Taken> result;
  result.emplace(Taken{std::move(at->second.gradient), order_[at->second.position]});
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
    Weight& weight = weights_.at(taken.gradient->weight().unsafeGetTensorImpl());
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
  there_.assign(order_.size(), false);
  left_.assign(order_.size(), 0);
  there_up_to_ = 0;
  cancelled_ = false;
}

}  // namespace mptune::tuner
