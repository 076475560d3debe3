#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "profiler/model/layers/split_backward.h"

namespace mptune::tuner {

/// The weight gradients of one stage replica that are left to compute after its input gradients. It hands them out so that every weight
/// adds its micro-batches in one order, whichever threads compute them. Thread-safe.
///
///     row of the device   I0  I1  I2  W0  W1  W2       weight a   0 -> 1 -> 2     one after another
///                                                      weight b   0 -> 1 -> 2     weights at the same time
/// Fused micro-batches are handed out together, once the input gradients of all of them have ended.
class PendingWeights {
 public:
  using Groups = std::vector<std::vector<int>>;
  /// The gradients of a weight in one micro-batch, or in several fused ones, that a thread has taken to compute. Call done() with it, or
  /// fail the step.
  struct Taken {
    profiler::WeightGradients gradients;  ///< for run_together()
    at::Tensor weight;
    int microbatch = 0;  ///< the first one
    int further = 0;     ///< micro-batches after it, fused with it
  };
  enum class Size { smallest, largest };

  /// `order`: micro-batches in the order in which their weight gradients are added, those of whole backwards included. Each entry holds one
  /// micro-batch, or several fused ones, ascending.
  explicit PendingWeights(const Groups& order);

  /// Called whenever gradients can be taken that could not before, in the thread that caused it; it must not call back.
  /// Set it before the first step; null: nobody is told.
  void set_ready_observer(std::function<void()> observer) { ready_observer_ = std::move(observer); }

  /// Adds what a micro-batch has left to compute. Call it after the micro-batch's input gradients; a whole backward leaves no `gradients`.
  void add(int microbatch, profiler::WeightGradients gradients);
  /// Returns a weight gradient whose turn it is, or nothing if there is none now.
  [[nodiscard]] std::optional<Taken> take(Size first);
  /// Returns a weight gradient of the micro-batches up to `microbatch` in the order, or of those fused with it. Waits while other threads
  /// compute the last of them. Returns nothing once all those are done whose input gradients have ended. Throws StepCancelled.
  [[nodiscard]] std::optional<Taken> take_up_to(int microbatch);
  /// Does the same as take_up_to() for all micro-batches.
  [[nodiscard]] std::optional<Taken> take_all() { return take_up_to(order_.back().front()); }
  /// Marks the gradient as computed.
  void done(const Taken& taken);

  /// Returns true if gradients of this weight wait or are being computed.
  [[nodiscard]] bool holds(const at::Tensor& weight) const;
  /// Returns true if nothing waits or is being computed.
  [[nodiscard]] bool empty() const;
  /// Wakes take_up_to() with StepCancelled until reset().
  void cancel();
  /// Drops everything, for the next step. Requires: no thread computes a gradient.
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
  Position there_up_to_ = 0;          ///< at all positions before it, input gradients have ended
  std::vector<std::size_t> left_;     ///< by position: weights that are not computed yet
  std::map<WeightKey, Weight> weights_;
  std::multimap<double, Ready> ready_;  ///< by their number of multiplications
  bool cancelled_ = false;
};

}  // namespace mptune::tuner
