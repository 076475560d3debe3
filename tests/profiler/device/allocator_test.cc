#include "profiler/device/cpu_allocator.h"

#include <ATen/ATen.h>
#include <c10/core/Allocator.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "profiler/device/device.h"

namespace mptune::testing {
namespace {

at::Tensor bytes_on(MemoryAccount& account, std::int64_t bytes) {
  const AccountScope scope(account);
  return at::empty({bytes}, at::kByte);
}

bool mapped(const void* address) {
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  unsigned char resident = 0;
  return mincore(reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(address) / page * page), page, &resident) == 0;
}

TEST(CpuAllocator, ChargesTheAllocatingThreadWhoeverFrees) {
  ASSERT_TRUE(cpu_accounting_installed());
  MemoryAccount& a = new_memory_account("a");
  MemoryAccount& b = new_memory_account("b");
  at::Tensor kept;
  std::thread([&] {
    const AccountScope outer(a);
    kept = at::zeros({1000});
    const AccountScope inner(b);
    const at::Tensor temporary = at::zeros({10});
    EXPECT_EQ(b.current_bytes(), 40);
  }).join();
  EXPECT_EQ(a.current_bytes(), 4000);
  EXPECT_EQ(b.current_bytes(), 0);
  std::thread([&, tensor = std::move(kept)]() mutable {
    const AccountScope other(b);
    tensor.reset();
  }).join();
  EXPECT_EQ(a.current_bytes(), 0);
  EXPECT_EQ(a.peak_bytes(), 4000);
  EXPECT_EQ(b.current_bytes(), 0);
  EXPECT_EQ(b.peak_bytes(), 40);
}

TEST(CpuAllocator, PeakIsTheHighestSumSinceItsReset) {
  MemoryAccount& account = new_memory_account("peak");
  at::Tensor first = bytes_on(account, 300);
  at::Tensor second = bytes_on(account, 200'000);
  first.reset();
  EXPECT_EQ(account.peak_bytes(), 200'300);
  account.reset_peak();
  EXPECT_EQ(account.peak_bytes(), 200'000);
  const at::Tensor third = bytes_on(account, 7);
  EXPECT_EQ(account.peak_bytes(), 200'007);
}

// Sizes that come once do not pile up: what is kept for them is freed for others.
TEST(CpuAllocator, BlocksKeptForOtherSizesAreFreed) {
  MemoryAccount& account = new_memory_account("random sizes");
  constexpr std::int64_t kMost = 64 << 20;
  (void)bytes_on(account, kMost);
  for (std::int64_t bytes = 40 << 20; bytes < kMost; bytes += 1 << 20) {
    const at::Tensor tensor = bytes_on(account, bytes);
    EXPECT_LE(account.current_bytes() + account.kept_bytes(), kMost + kMost / 4) << "an eighth more where sizes are rounded";
  }
  EXPECT_GT(account.kept_bytes(), 0);
  account.set_cap_bytes(kMost);
  const at::Tensor tensor = bytes_on(account, 63 << 20);
  EXPECT_LE(account.current_bytes() + account.kept_bytes(), kMost);
}

TEST(CpuAllocator, AsksForMemoryBeforeItRefuses) {
  MemoryAccount& account = new_memory_account("asks");
  account.set_cap_bytes(1000);
  at::Tensor spare = bytes_on(account, 600);
  int asked = 0;
  auto asker = account.when_short([&] {
    ++asked;
    spare.reset();
  });
  const at::Tensor fits = bytes_on(account, 700);
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(account.refused_bytes(), 0);
  EXPECT_EQ(account.current_bytes(), 700);
  EXPECT_THROW((void)bytes_on(account, 700), c10::OutOfMemoryError);
  EXPECT_EQ(asked, 2);
  asker.reset();
  EXPECT_THROW((void)bytes_on(account, 700), c10::OutOfMemoryError);
  EXPECT_EQ(asked, 2) << "whom nobody asks any more";
}

TEST(CpuAllocator, CapRefusesWhatExceedsItAndChargesNothing) {
  MemoryAccount& account = new_memory_account("capped");
  account.set_cap_bytes(1000);
  at::Tensor fits = bytes_on(account, 600);
  EXPECT_EQ(account.refused_bytes(), 0);
  for (const std::int64_t bytes : {401, 1 << 20}) {
    EXPECT_THROW((void)bytes_on(account, bytes), c10::OutOfMemoryError);
    EXPECT_EQ(account.current_bytes(), 600);
    EXPECT_EQ(account.peak_bytes(), 600);
    EXPECT_EQ(account.refused_bytes(), bytes);
  }
  const at::Tensor rest = bytes_on(account, 400);
  EXPECT_EQ(account.current_bytes(), 1000);
  fits.reset();
  account.set_cap_bytes(0);
  EXPECT_NO_THROW((void)bytes_on(account, 1 << 20));
}

TEST(CpuAllocator, RefusalOfOneThreadDoesNotRefuseAnother) {
  MemoryAccount& account = new_memory_account("greedy and modest");
  account.set_cap_bytes(1 << 20);
  std::atomic<int> refused_of_greedy{0}, refused_of_modest{0};
  std::atomic<bool> stop{false};
  const auto allocate_until_stop = [&](std::size_t bytes, std::atomic<int>& refused) {
    const AccountScope scope(account);
    while (!stop) {
      try {
        (void)c10::GetAllocator(c10::DeviceType::CPU)->allocate(bytes);
      } catch (const c10::OutOfMemoryError&) {
        ++refused;
      }
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] { allocate_until_stop(1 << 21, refused_of_greedy); });
    threads.emplace_back([&] { allocate_until_stop(64, refused_of_modest); });
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  stop = true;
  for (auto& thread : threads) thread.join();
  EXPECT_GT(refused_of_greedy, 0);
  EXPECT_EQ(refused_of_modest, 0) << "64 bytes under a cap of 1 MiB";
  EXPECT_EQ(account.current_bytes(), 0);
}

TEST(CpuAllocator, LargeBlocksAreReusedByTheirAccountUntilItRetires) {
  MemoryAccount& account = new_memory_account("reuse");
  MemoryAccount& other = new_memory_account("other");
  constexpr std::int64_t kLarge = 64 << 20;
  at::Tensor first = bytes_on(account, kLarge);
  const void* address = first.data_ptr();
  first.reset();
  EXPECT_TRUE(mapped(address));
  const at::Tensor foreign = bytes_on(other, kLarge);
  EXPECT_NE(foreign.data_ptr(), address) << "memory of one device serves another";
  at::Tensor again = bytes_on(account, kLarge - 1000);
  EXPECT_EQ(again.data_ptr(), address) << "a block of nearly the size is not reused";
  EXPECT_EQ(account.current_bytes(), kLarge - 1000);
  at::Tensor late = bytes_on(account, kLarge);
  const void* late_address = late.data_ptr();
  again.reset();
  account.retire();
  EXPECT_FALSE(mapped(address)) << "what was kept is still there";
  EXPECT_TRUE(mapped(late_address)) << "memory in use was taken";
  late.reset();
  EXPECT_FALSE(mapped(late_address)) << "a retired account keeps what comes back";
  EXPECT_EQ(account.current_bytes(), 0);
}

TEST(CpuAllocator, MemoryThatOutlivesItsDeviceIsNotCached) {
  const at::Tensor like = at::empty({64 << 20}, at::kByte);
  at::Tensor late = make_device(parse_device("sleep:0"))->empty_like(like);
  const void* address = late.data_ptr();
  EXPECT_TRUE(mapped(address));
  late.reset();
  EXPECT_FALSE(mapped(address));
}

TEST(CpuAllocator, OutOfMachineMemoryNamesTheDevice) {
  MemoryAccount& account = new_memory_account("endless");
  constexpr std::int64_t kMore = std::int64_t{1} << 60;
  const at::Tensor little = bytes_on(account, 100);
  for (const std::int64_t bytes : {kMore, std::numeric_limits<std::int64_t>::max()}) {
    try {
      (void)bytes_on(account, bytes);
      FAIL() << bytes << " bytes were had";
    } catch (const c10::OutOfMemoryError& error) {
      EXPECT_NE(std::string(error.what_without_backtrace()).find("out of memory on endless"), std::string::npos);
    }
    EXPECT_EQ(account.refused_bytes(), bytes);
    EXPECT_EQ(account.current_bytes(), 100);
  }
}

TEST(CpuAllocator, AlignsAndAllowsEmptyAllocations) {
  MemoryAccount& account = new_memory_account("alignment");
  for (const std::int64_t bytes : {1, 63, 64, 65, 4097, 131'008, 131'071, 131'072, 1'000'003, 9'999'999}) {
    const at::Tensor tensor = bytes_on(account, bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.data_ptr()) % 64, 0U) << bytes;
    EXPECT_EQ(account.current_bytes(), bytes);
    at::Tensor(tensor).fill_(bytes % 251);
    EXPECT_EQ(tensor[bytes - 1].item<int>(), bytes % 251);
  }
  EXPECT_EQ(account.current_bytes(), 0);
  const at::Tensor nothing = bytes_on(account, 0);
  EXPECT_EQ(nothing.numel(), 0);
  EXPECT_EQ(account.peak_bytes(), 9'999'999);
}

TEST(CpuAllocator, ManyThreadsLeaveNothingBehindAndShareNoBlock) {
  MemoryAccount& account = new_memory_account("hammer");
  std::mutex mutex;
  std::vector<at::Tensor> exchange;  // what one thread allocates another one frees
  std::atomic<int> torn{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      const AccountScope scope(account);
      for (int i = 0; i < 400; ++i) {
        const std::int64_t bytes = (t * 131 + i * 977) % 5 == 0 ? 150'000 + i % 3 : 1 + (i * 37) % 3000;
        at::Tensor tensor = at::full({bytes}, t, at::kByte);
        if (i % 7 == 0) std::this_thread::yield();
        if (tensor.min().item<int>() != t || tensor.max().item<int>() != t) ++torn;
        const std::lock_guard lock(mutex);
        if (exchange.size() > 16) exchange.erase(exchange.begin());
        exchange.push_back(std::move(tensor));
      }
    });
  for (auto& thread : threads) thread.join();
  std::int64_t held = 0;
  for (const at::Tensor& tensor : exchange) held += static_cast<std::int64_t>(tensor.nbytes());
  EXPECT_EQ(torn, 0) << "two tensors share a block";
  EXPECT_EQ(account.current_bytes(), held);
  EXPECT_GE(account.peak_bytes(), held);
  exchange.clear();
  EXPECT_EQ(account.current_bytes(), 0);
}

}  // namespace
}  // namespace mptune::testing
