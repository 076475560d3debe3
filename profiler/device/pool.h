#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace mptune::profiler {

/// Lends objects that are expensive to make, and lends them again when they come back. Thread-safe. Must outlive what it has lent.
template <class Object>
class Pool {
 public:
  struct GiveBack {
    Pool* pool = nullptr;
    void operator()(Object* object) const { pool->give_back(std::unique_ptr<Object>(object)); }
  };
  using Lent = std::unique_ptr<Object, GiveBack>;

  /// Returns an object that has come back, as it was left, or a new one made of `arguments`.
  template <class... Arguments>
  [[nodiscard]] Lent take(Arguments&&... arguments) {
    std::unique_ptr<Object> taken = take_idle();
    if (!taken) taken = std::make_unique<Object>(std::forward<Arguments>(arguments)...);
    return {taken.release(), GiveBack{this}};
  }

 private:
  [[nodiscard]] std::unique_ptr<Object> take_idle() {
    const std::lock_guard lock(mutex_);
    if (idle_.empty()) return nullptr;
    std::unique_ptr<Object> taken = std::move(idle_.back());
    idle_.pop_back();
    return taken;
  }
  void give_back(std::unique_ptr<Object> object) {
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(object));
  }

  std::mutex mutex_;
  std::vector<std::unique_ptr<Object>> idle_;
};

}  // namespace mptune::profiler
