#pragma once

#include <memory>

namespace mptune {

/// A point in a device's queue of work, like a CUDA event. It is reached when all work before it is done. Thread-safe.
class Moment {
 public:
  virtual ~Moment() = default;
  [[nodiscard]] virtual bool reached() const = 0;
  /// Blocks the calling thread until the moment is reached. Throws c10::Error if the device has failed.
  virtual void wait() const = 0;
};

/// A moment; null stands for one that has been reached. Work on CPU is done when its call returns.
using MomentPtr = std::shared_ptr<const Moment>;

[[nodiscard]] inline bool reached(const MomentPtr& moment) {
  return !moment || moment->reached();
}
inline void wait_for(const MomentPtr& moment) {
  if (moment) moment->wait();
}

}  // namespace mptune
