#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "profiler/device/memory_shortage.h"

namespace mptune {

/// Counts the bytes of one device's tensors, whichever thread frees them. Thread-safe; lives until the process ends.
class MemoryAccount {
 public:
  explicit MemoryAccount(std::string name) : name_(std::move(name)) {}
  MemoryAccount(const MemoryAccount&) = delete;
  MemoryAccount& operator=(const MemoryAccount&) = delete;

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] std::int64_t current_bytes() const { return current_; }
  [[nodiscard]] std::int64_t peak_bytes() const { return peak_; }
  void reset_peak() { peak_ = current_.load(); }
  /// Bytes of free blocks that are cached.
  [[nodiscard]] std::int64_t kept_bytes() const { return kept_bytes_; }

  /// Sets the cap; 0: no cap. An allocation beyond the cap throws c10::OutOfMemoryError, as a GPU's allocator does.
  void set_cap_bytes(std::int64_t bytes) { cap_ = bytes; }
  [[nodiscard]] std::int64_t cap_bytes() const { return cap_; }
  /// While the result lives, `free_some` is called in the allocating thread before an allocation is refused. It frees tensors and allocates
  /// none.
  [[nodiscard]] std::shared_ptr<void> when_short(std::function<void()> free_some) { return shortage_.when_short(std::move(free_some)); }
  /// Size of the last allocation that failed, because of the cap or because the machine has no memory left; 0: none.
  [[nodiscard]] std::int64_t refused_bytes() const { return refused_; }

  /// Call when the account's owner is gone. Cached free blocks are freed, later ones are no longer cached; counting continues.
  /// Like free(), this returns blocks of 32 MiB and more to the system; smaller ones serve later allocations of the process.
  void retire();

 private:
  friend class AccountingAllocator;
  [[nodiscard]] bool charge(std::int64_t bytes);
  void charge_or_refuse(std::int64_t bytes);
  void* take_kept(std::size_t block_bytes);
  void free_kept(std::int64_t left);
  [[nodiscard]] bool keeps_more_than_the_cap() const { return cap_ > 0 && current_ + kept_bytes_ > cap_; }
  void make_room();
  [[nodiscard]] static void* block_in_need(std::size_t block_bytes);
  [[nodiscard]] bool keep(void* base, std::size_t block_bytes);
  [[noreturn]] void refuse(std::int64_t bytes, const std::string& reason);

  std::string name_;
  std::atomic<std::int64_t> current_{0};
  std::atomic<std::int64_t> peak_{0};
  std::atomic<std::int64_t> highest_{0};  ///< like peak_, never reset
  std::atomic<std::int64_t> cap_{0};
  std::atomic<std::int64_t> refused_{0};
  std::mutex kept_mutex_;
  struct Kept {
    void* base = nullptr;
    std::int64_t since = 0;  ///< counts blocks that were kept
  };
  std::map<std::size_t, std::vector<Kept>> kept_;  ///< free blocks by size, the longest free first
  std::atomic<std::int64_t> kept_bytes_{0};        ///< changed under the mutex only
  std::int64_t kept_count_ = 0;
  bool retired_ = false;
  MemoryShortage shortage_;
};

/// Replaces LibTorch's CPU allocator by one that charges every tensor to the account of the allocating thread.
/// Large free blocks are cached per account instead of returned to the kernel: page faults would cost a fifth of a step. Cached blocks and
/// those in use together are at most the cap or, without a cap, a fifth more than the peak. Sets mallopt, too.
/// Process-wide: call it first thing in main, before any tensor exists. Further calls do nothing.
void install_cpu_accounting();
[[nodiscard]] bool cpu_accounting_installed();

/// Makes an account, valid until the process ends (even after retire()). Thread-safe.
[[nodiscard]] MemoryAccount& new_memory_account(const std::string& name);

/// During its lifetime, allocations of this thread are charged to `account`.
class AccountScope {
 public:
  explicit AccountScope(MemoryAccount& account);
  ~AccountScope();
  AccountScope(const AccountScope&) = delete;
  AccountScope& operator=(const AccountScope&) = delete;

 private:
  MemoryAccount* before_;
};

}  // namespace mptune
