#include "tests/emulation/bridge/side_thread.h"

#include <unistd.h>

#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "tests/emulation/bridge/kernel_thread.h"

namespace emulation {

namespace {

/// One thread with room for one job. Never freed: its thread may run while the process ends.
class SideThread {
 public:
  SideThread() {
    std::thread([this] { work(); }).detach();
  }
  [[nodiscard]] bool run(const std::function<void()>& compute) {
    std::unique_lock lock(mutex_);
    job_ = &compute;
    changed_.notify_all();
    changed_.wait(lock, [this] { return job_ == nullptr; });
    return succeeded_;
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return job_ != nullptr; });
      succeeded_ = try_to_run(*job_);
      job_ = nullptr;
      changed_.notify_all();
    }
  }
  static bool try_to_run(const std::function<void()>& compute) {
    try {
      run_as_kernel(compute);
      return true;
    } catch (...) {
      return false;
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  const std::function<void()>* job_ = nullptr;
  bool succeeded_ = false;
};

/// Threads without a job. A forked process has none of its parent's.
class IdleThreads {
 public:
  SideThread& take() {
    const std::lock_guard lock(mutex_);
    if (process_ != getpid()) threads_.clear();
    process_ = getpid();
    if (threads_.empty()) return *new SideThread;
    SideThread& thread = *threads_.back();
    threads_.pop_back();
    return thread;
  }
  void give_back(SideThread& thread) {
    const std::lock_guard lock(mutex_);
    threads_.push_back(&thread);
  }

 private:
  std::mutex mutex_;
  pid_t process_ = 0;
  std::vector<SideThread*> threads_;
};

}  // namespace

bool run_aside(const std::function<void()>& compute) {
  static IdleThreads& idle = *new IdleThreads;
  SideThread& thread = idle.take();
  const bool succeeded = thread.run(compute);
  idle.give_back(thread);
  return succeeded;
}

}  // namespace emulation
