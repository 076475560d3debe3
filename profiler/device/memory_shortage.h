#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace mptune {

/// The functions that free memory of a device before it refuses an allocation. Thread-safe.
class MemoryShortage {
 public:
  /// While the result lives, ask() calls `free_some`, which frees tensors and allocates none.
  [[nodiscard]] std::shared_ptr<void> when_short(std::function<void()> free_some) {
    auto asker = std::make_shared<std::function<void()>>(std::move(free_some));
    const std::lock_guard lock(mutex_);
    std::erase_if(askers_, [](const auto& gone) { return gone.expired(); });
    askers_.push_back(asker);
    return asker;
  }

  /// Calls all functions in the thread that allocates. Returns false if there is none.
  bool ask() {
    std::vector<std::shared_ptr<std::function<void()>>> asked;
    {
      const std::lock_guard lock(mutex_);
      for (const auto& asker : askers_)
        if (auto there = asker.lock()) asked.push_back(std::move(there));
    }
    for (const auto& free_some : asked) (*free_some)();
    return !asked.empty();
  }

 private:
  std::mutex mutex_;
  std::vector<std::weak_ptr<std::function<void()>>> askers_;
};

}  // namespace mptune
