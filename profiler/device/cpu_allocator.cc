#include "profiler/device/cpu_allocator.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>
#include <malloc.h>
#include <sys/mman.h>

#include <bit>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <limits>

namespace mptune {

namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kKeepFrom = std::size_t{128} << 10;
constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr const char* kNoMore = "the machine has no memory left";

/// Stored in the 64 bytes before the data, so that the thread that frees a block finds its account.
struct Header {
  MemoryAccount* account;
  std::size_t bytes;
  std::size_t block_bytes;
};
static_assert(sizeof(Header) <= kAlignment);

thread_local MemoryAccount* thread_account = nullptr;

MemoryAccount& host_account() {
  static MemoryAccount& account = new_memory_account("host");
  return account;
}

/// Allocates a block, null if there is no memory. Large blocks are aligned to huge pages and request them: with 4 KiB pages, address
/// translation on a virtual machine takes as long as reading the data.
void* new_block(std::size_t block_bytes) {
  const bool huge = block_bytes >= kHugePage;
  void* base = nullptr;
  if (posix_memalign(&base, huge ? kHugePage : kAlignment, block_bytes) != 0) return nullptr;
  if (huge) madvise(base, block_bytes, MADV_HUGEPAGE);
  return base;
}

/// Rounds up to one of eight sizes per power of two. At most an eighth is wasted, and blocks of similar size can be reused for each other.
std::size_t rounded(std::size_t bytes) {
  if (bytes < kKeepFrom) return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  const std::size_t step = std::bit_floor(bytes) / 8;
  return (bytes + step - 1) / step * step;
}

}  // namespace

void MemoryAccount::refuse(std::int64_t bytes, const std::string& reason) {
  refused_ = bytes;
  C10_THROW_ERROR(OutOfMemoryError, c10::str("out of memory on ", name_, ": ", bytes, " bytes requested, ", reason));
}

void MemoryAccount::charge(std::int64_t bytes) {
  // Checked before charging: a refused large allocation must not make another thread's small one fail.
  const std::int64_t cap = cap_;
  const std::int64_t most = cap > 0 ? cap : std::numeric_limits<std::int64_t>::max();
  std::int64_t before = current_;
  do {
    if (bytes > most - before) refuse(bytes, cap > 0 ? c10::str(before, " in use, cap ", cap) : kNoMore);
  } while (!current_.compare_exchange_weak(before, before + bytes));
  const std::int64_t now = before + bytes;
  std::int64_t peak = peak_;
  while (now > peak && !peak_.compare_exchange_weak(peak, now)) {
  }
}

void* MemoryAccount::take_kept(std::size_t block_bytes) {
  const std::lock_guard lock(kept_mutex_);
  const auto found = kept_.find(block_bytes);
  if (found == kept_.end() || found->second.empty()) return nullptr;
  void* base = found->second.back();
  found->second.pop_back();
  return base;
}

bool MemoryAccount::keep(void* base, std::size_t block_bytes) {
  const std::lock_guard lock(kept_mutex_);
  if (!retired_) kept_[block_bytes].push_back(base);
  return !retired_;
}

void MemoryAccount::retire() {
  const std::lock_guard lock(kept_mutex_);
  retired_ = true;
  for (auto& [size, blocks] : kept_)
    for (void* base : blocks) std::free(base);
  kept_.clear();
}

class AccountingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    MemoryAccount& account = thread_account != nullptr ? *thread_account : host_account();
    if (bytes == 0) return {nullptr, nullptr, &release, c10::Device(c10::DeviceType::CPU)};
    account.charge(static_cast<std::int64_t>(bytes));
    const std::size_t block_bytes = rounded(bytes) + kAlignment;
    void* base = block_bytes >= kKeepFrom ? account.take_kept(block_bytes) : nullptr;
    if (base == nullptr) base = new_block(block_bytes);
    if (base == nullptr) {
      account.current_ -= static_cast<std::int64_t>(bytes);
      account.refuse(static_cast<std::int64_t>(bytes), kNoMore);
    }
    new (base) Header{&account, bytes, block_bytes};
    void* data = static_cast<char*>(base) + kAlignment;
    return {data, data, &release, c10::Device(c10::DeviceType::CPU)};
  }

  [[nodiscard]] c10::DeleterFnPtr raw_deleter() const override { return &release; }

  void copy_data(void* destination, const void* source, std::size_t count) const override { std::memcpy(destination, source, count); }

 private:
  static void release(void* data) {
    if (data == nullptr) return;
    void* base = static_cast<char*>(data) - kAlignment;
    const Header header = *static_cast<Header*>(base);
    header.account->current_ -= static_cast<std::int64_t>(header.bytes);
    if (header.block_bytes < kKeepFrom || !header.account->keep(base, header.block_bytes)) std::free(base);
  }
};

namespace {
std::atomic<bool> installed{false};
}

void install_cpu_accounting() {
  if (installed.exchange(true)) return;
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, -1);
  mallopt(M_TOP_PAD, 64 << 20);
  static AccountingAllocator allocator;
  c10::SetAllocator(c10::DeviceType::CPU, &allocator, /*priority=*/1);
}

bool cpu_accounting_installed() {
  return installed;
}

MemoryAccount& new_memory_account(const std::string& name) {
  // Never freed: tensors may outlive every owner of an account, even static ones.
  static std::mutex& mutex = *new std::mutex;
  static std::deque<MemoryAccount>& accounts = *new std::deque<MemoryAccount>;
  const std::lock_guard lock(mutex);
  return accounts.emplace_back(name);
}

AccountScope::AccountScope(MemoryAccount& account) : before_(thread_account) {
  thread_account = &account;
}
AccountScope::~AccountScope() {
  thread_account = before_;
}

}  // namespace mptune
