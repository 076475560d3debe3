#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace mptune {

/// Bytes of tensors that belong to one device, whoever frees them. Thread-safe; lives until the process ends.
class MemoryAccount {
 public:
  explicit MemoryAccount(std::string name) : name_(std::move(name)) {}
  MemoryAccount(const MemoryAccount&) = delete;
  MemoryAccount& operator=(const MemoryAccount&) = delete;

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] std::int64_t current_bytes() const { return current_; }
  [[nodiscard]] std::int64_t peak_bytes() const { return peak_; }
  void reset_peak() { peak_ = current_.load(); }

  /// 0: no cap. An allocation that would exceed it throws c10::OutOfMemoryError, as a GPU's allocator does.
  void set_cap_bytes(std::int64_t bytes) { cap_ = bytes; }
  [[nodiscard]] std::int64_t cap_bytes() const { return cap_; }
  /// Size of the last allocation that was refused, by the cap or because the machine has no memory left; 0: none.
  [[nodiscard]] std::int64_t refused_bytes() const { return refused_; }

  /// The account's owner is gone: blocks kept for reuse are freed, and blocks that come back later are not kept any more. Freed is as by
  /// free(): blocks of 32 MiB and more go back to the system, smaller ones serve later allocations of the process. Counting goes on.
  void retire();

 private:
  friend class AccountingAllocator;
  void charge(std::int64_t bytes);
  void* take_kept(std::size_t block_bytes);
  [[nodiscard]] bool keep(void* base, std::size_t block_bytes);
  [[noreturn]] void refuse(std::int64_t bytes, const std::string& reason);

  std::string name_;
  std::atomic<std::int64_t> current_{0};
  std::atomic<std::int64_t> peak_{0};
  std::atomic<std::int64_t> cap_{0};
  std::atomic<std::int64_t> refused_{0};
  std::mutex kept_mutex_;
  std::map<std::size_t, std::vector<void*>> kept_;  ///< free blocks by size
  bool retired_ = false;
};

/// Replaces LibTorch's CPU allocator by one that charges every tensor to the account of the allocating thread, and keeps large blocks for
/// reuse by the same account instead of returning them to the kernel (page faults cost a fifth of a step otherwise). Also sets mallopt for
/// the small ones. Process-wide: call it once, first thing in main, before any tensor exists. Does nothing when called again.
void install_cpu_accounting();
[[nodiscard]] bool cpu_accounting_installed();

/// A new account; valid until the process ends, also after retire(). Thread-safe.
[[nodiscard]] MemoryAccount& new_memory_account(const std::string& name);

/// While it lives, allocations of this thread are charged to `account`.
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
