#include "profiler/device/cpu_allocator.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>
#include <malloc.h>
#include <sys/mman.h>

#include <algorithm>
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
constexpr std::int64_t kSharePeakKept = 5;  // blocks that are kept and used: a fifth more than the peak
constexpr const char* kNoMore = "the machine has no memory left";

/// Stored in the 64 bytes before the data, so that the thread that frees a block finds its account.
struct Header {
  MemoryAccount* account;
  std::size_t bytes;
  std::size_t block_bytes;
};
static_assert(sizeof(Header) <= kAlignment);

thread_local MemoryAccount* thread_account = nullptr;

/// Never freed: tensors may outlive every owner of an account, even static ones.
struct Accounts {
  std::mutex mutex;
  std::deque<MemoryAccount> all;
};
Accounts& accounts() {
  static Accounts& accounts = *new Accounts;
  return accounts;
}

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

void raise(std::atomic<std::int64_t>& most, std::int64_t value) {
  std::int64_t before = most;
  while (value > before && !most.compare_exchange_weak(before, value)) {
  }
}

}  // namespace

void MemoryAccount::refuse(std::int64_t bytes, const std::string& reason) {
  refused_ = bytes;
  C10_THROW_ERROR(OutOfMemoryError, c10::str("out of memory on ", name_, ": ", bytes, " bytes requested, ", reason));
}

bool MemoryAccount::charge(std::int64_t bytes) {
  // Checked before charging: a refused large allocation must not make another thread's small one fail.
  const std::int64_t cap = cap_;
  const std::int64_t most = cap > 0 ? cap : std::numeric_limits<std::int64_t>::max();
  std::int64_t before = current_;
  do {
    if (bytes > most - before) return false;
  } while (!current_.compare_exchange_weak(before, before + bytes));
  const std::int64_t now = before + bytes;
  raise(peak_, now);
  raise(highest_, now);
  return true;
}

void MemoryAccount::charge_or_refuse(std::int64_t bytes) {
  if (charge(bytes)) return;
  shortage_.ask();
  const std::int64_t before = current_, cap = cap_;
  if (!charge(bytes)) refuse(bytes, cap > 0 ? c10::str(before, " in use, cap ", cap) : kNoMore);
}

void* MemoryAccount::take_kept(std::size_t block_bytes) {
  const std::lock_guard lock(kept_mutex_);
  const auto found = kept_.find(block_bytes);
  if (found == kept_.end() || found->second.empty()) return nullptr;
  void* base = found->second.back().base;
  found->second.pop_back();
  kept_bytes_ -= static_cast<std::int64_t>(block_bytes);
  return base;
}

void MemoryAccount::free_kept(std::int64_t left) {
  const std::lock_guard lock(kept_mutex_);
  while (kept_bytes_ > left) {
    auto oldest = kept_.end();
    for (auto each = kept_.begin(); each != kept_.end(); ++each)
      if (!each->second.empty() && (oldest == kept_.end() || each->second.front().since < oldest->second.front().since)) oldest = each;
    if (oldest == kept_.end()) return;
    std::free(oldest->second.front().base);
    oldest->second.erase(oldest->second.begin());
    kept_bytes_ -= static_cast<std::int64_t>(oldest->first);
  }
}

/// Makes room for a block that is not among the kept ones: frees the blocks that were kept longest.
void MemoryAccount::make_room() {
  const std::int64_t cap = cap_, highest = highest_;
  free_kept(std::max<std::int64_t>(0, (cap > 0 ? cap : highest + highest / kSharePeakKept) - current_));
}

/// Allocates a block when the system has no more memory: freeing what is kept on any account may be enough.
void* MemoryAccount::block_in_need(std::size_t block_bytes) {
  std::vector<MemoryAccount*> all;
  {
    const std::lock_guard lock(accounts().mutex);
    for (MemoryAccount& account : accounts().all) all.push_back(&account);
  }
  for (MemoryAccount* account : all) {
    account->shortage_.ask();
    account->free_kept(0);
  }
  malloc_trim(0);
  return new_block(block_bytes);
}

bool MemoryAccount::keep(void* base, std::size_t block_bytes) {
  const std::lock_guard lock(kept_mutex_);
  if (!retired_) {
    kept_[block_bytes].push_back({base, ++kept_count_});
    kept_bytes_ += static_cast<std::int64_t>(block_bytes);
  }
  return !retired_;
}

void MemoryAccount::retire() {
  const std::lock_guard lock(kept_mutex_);
  retired_ = true;
  for (auto& [size, blocks] : kept_)
    for (const Kept& block : blocks) std::free(block.base);
  kept_.clear();
  kept_bytes_ = 0;
}

class AccountingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    MemoryAccount& account = thread_account != nullptr ? *thread_account : host_account();
    if (bytes == 0) return {nullptr, nullptr, &release, c10::Device(c10::DeviceType::CPU)};
    account.charge_or_refuse(static_cast<std::int64_t>(bytes));
    const std::size_t block_bytes = rounded(bytes) + kAlignment;
    void* base = block_bytes >= kKeepFrom ? account.take_kept(block_bytes) : nullptr;
    if (base == nullptr || account.keeps_more_than_the_cap()) account.make_room();
    if (base == nullptr) base = new_block(block_bytes);
    if (base == nullptr) base = MemoryAccount::block_in_need(block_bytes);
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
  const std::lock_guard lock(accounts().mutex);
  return accounts().all.emplace_back(name);
}

AccountScope::AccountScope(MemoryAccount& account) : before_(thread_account) {
  thread_account = &account;
}
AccountScope::~AccountScope() {
  thread_account = before_;
}

}  // namespace mptune
