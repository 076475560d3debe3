#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "profiler/model/split_backward.h"

namespace mptune::tuner {

/// The weight gradients of one stage replica that input gradients have left. It hands them out so that every weight adds its micro-batches
/// in one order, whichever threads compute them. Thread-safe.
///
///     row of the device   I0  I1  I2  W0  W1  W2       weight a   0 -> 1 -> 2     one after another
///                                                      weight b   0 -> 1 -> 2     weights at the same time
/// Fused micro-batches are handed out together, once the input gradients of all of them have ended.
class PendingWeights {
 public:
  using Groups = std::vector<std::vector<int>>;
  /// A weight's gradients in a micro-batch, or in fused ones, that somebody computes. Call done() with it, or fail the step.
  struct Taken {
    profiler::WeightGradients gradients;  ///< for run_together()
    at::Tensor weight;
    int microbatch = 0;  ///< the first one
    int further = 0;     ///< micro-batches after it, fused with it
  };
  enum class Size { smallest, largest };

  /// `order`: micro-batches in the order in which their weight gradients are added, those of whole backwards included. Each entry holds
  /// one, or several that are fused, ascending.
  explicit PendingWeights(const Groups& order);

  /// Called whenever gradients can be taken that could not before, in the thread that caused it; it must not call back.
  /// Set it before the first step; null: nobody is told.
  void set_ready_observer(std::function<void()> observer) { ready_observer_ = std::move(observer); }

  /// After the input gradients of a micro-batch. Whole backwards have no `gradients`.
  void add(int microbatch, profiler::WeightGradients gradients);
  /// A weight gradient whose turn it is; nothing if there is none now.
  [[nodiscard]] std::optional<Taken> take(Size first);
  /// Likewise, of the micro-batches up to `microbatch` in the order, and of those fused with it. Waits while other threads compute the last
  /// of them; nothing once all whose input gradients have ended are done. Throws StepCancelled.
  [[nodiscard]] std::optional<Taken> take_up_to(int microbatch);
  /// Likewise, of all micro-batches.
  [[nodiscard]] std::optional<Taken> take_all() { return take_up_to(order_.back().front()); }
  /// The gradient was computed.
  void done(const Taken& taken);

  /// True if gradients of this weight wait or are computed.
  [[nodiscard]] bool holds(const at::Tensor& weight) const;
  /// True if nothing waits or is computed.
  [[nodiscard]] bool empty() const;
  /// Wakes take_up_to() with StepCancelled until reset().
  void cancel();
  /// Drops everything, for the next step. Requires: no thread computes any.
  void reset();

 private:
  using Position = std::size_t;  ///< in the order
  using ByMicrobatch = std::map<int, std::unique_ptr<profiler::WeightGradient>>;
  struct Weight {
    std::map<Position, ByMicrobatch> waiting;
    bool busy = false;  ///< its next gradient is ready, or being computed
  };
  struct Ready {
    Taken taken;
    Position position = 0;
  };
  using WeightKey = const c10::TensorImpl*;

  bool make_ready(Weight& weight);
  void tell(bool ready) const {
    if (ready && ready_observer_) ready_observer_();
  }
  std::optional<Taken> taken(std::multimap<double, Ready>::iterator at);

  std::function<void()> ready_observer_;
  Groups order_;
  std::map<int, Position> position_of_;  ///< by micro-batch
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::size_t> missing_;  ///< by position: micro-batches whose input gradients have not ended
  Position there_up_to_ = 0;          ///< all positions before it are there
  std::vector<std::size_t> left_;     ///< by position: weights that are not computed yet
  std::map<WeightKey, Weight> weights_;
  std::multimap<double, Ready> ready_;  ///< by multiplications
  bool cancelled_ = false;
};

}  // namespace mptune::tuner
