#include "tuner/runtime/between/rank_links.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "profiler/base/index.h"
#include "profiler/device/list/device_list.h"
#include "tests/support/gloo_ranks.h"
#include "tests/support/memory_connector.h"
#include "tests/support/thread_ranks.h"
#include "tuner/runtime/between/remote_device.h"

namespace mptune::tuner {
namespace {

using std::chrono::steady_clock;
using testing::ThreadRanks;

/// Links of known speed between ranks of this process. Messages queue on a medium: each direction has one, or both have the same.
class SlowLinks {
 public:
  struct Speed {
    double latency_s = 0;
    double bytes_per_second = 0;
    bool shared = false;
  };
  explicit SlowLinks(Speed speed) : speed_(speed) {}

  [[nodiscard]] std::shared_ptr<RankGroup> over(std::shared_ptr<RankGroup> group) {
    return std::make_shared<Rank>(*this, std::move(group));
  }

 private:
  class Rank final : public RankGroup {
   public:
    Rank(SlowLinks& links, std::shared_ptr<RankGroup> group) : links_(links), group_(std::move(group)) {}
    [[nodiscard]] int rank() const override { return group_->rank(); }
    [[nodiscard]] int size() const override { return group_->size(); }
    void send(int to, int tag, at::Tensor bytes) override {
      links_.begin(rank(), to, tag, static_cast<double>(bytes.nbytes()));
      group_->send(to, tag, std::move(bytes));
    }
    void receive(int from, int tag, const at::Tensor& bytes) override {
      group_->receive(from, tag, bytes);
      std::this_thread::sleep_until(links_.arrival(from, rank(), tag));
    }
    void all_reduce(const std::vector<int>& ranks, int sum, const at::Tensor& numbers) override { group_->all_reduce(ranks, sum, numbers); }
    void give_up(const Error& why) override { group_->give_up(why); }

   private:
    SlowLinks& links_;
    std::shared_ptr<RankGroup> group_;
  };

  static steady_clock::duration time_of(double length_s) {
    return std::chrono::duration_cast<steady_clock::duration>(std::chrono::duration<double>(length_s));
  }
  void begin(int from, int to, int tag, double bytes) {
    const std::lock_guard lock(mutex_);
    const std::pair direction(from, to), back(to, from);
    steady_clock::time_point& free_at = free_at_[speed_.shared ? std::min(direction, back) : direction];
    free_at = std::max(free_at, steady_clock::now()) + time_of(bytes / speed_.bytes_per_second);
    arrivals_[{from, to, tag}].push_back(free_at + time_of(speed_.latency_s));
  }
  steady_clock::time_point arrival(int from, int to, int tag) {
    const std::lock_guard lock(mutex_);
    auto& arrivals = arrivals_[{from, to, tag}];
    const steady_clock::time_point next = arrivals.front();
    arrivals.pop_front();
    return next;
  }

  const Speed speed_;
  std::mutex mutex_;
  std::map<std::pair<int, int>, steady_clock::time_point> free_at_;  ///< by medium
  std::map<std::tuple<int, int, int>, std::deque<steady_clock::time_point>> arrivals_;
};

std::vector<MeasuredRankLink> measured_over(int size, SlowLinks::Speed speed) {
  SlowLinks links(speed);
  std::vector<MeasuredRankLink> measured;
  ThreadRanks(size).run([&](const std::shared_ptr<RankGroup>& group) {
    RankStreams streams(links.over(group));
    const std::vector<MeasuredRankLink> own = measure_rank_links(streams, 5, 5);
    if (group->rank() == 0) measured = own;
  });
  return measured;
}

void expect_every_link(const std::vector<MeasuredRankLink>& links, int size) {
  std::size_t next = 0;
  ASSERT_EQ(std::ssize(links), size * (size - 1));
  for (int from = 0; from < size; ++from)
    for (int to = 0; to < size; ++to) {
      if (from == to) continue;
      const MeasuredRankLink& link = links[next++];
      EXPECT_EQ(link.from, from);
      EXPECT_EQ(link.to, to);
      EXPECT_GE(link.latency_s, 0);
      EXPECT_TRUE(link.bytes_per_second > 0 && std::isfinite(link.bytes_per_second)) << link.bytes_per_second;
      EXPECT_GE(link.largest_bytes, 1 << 20);
      EXPECT_GT(link.both_at_once_s, 0);
      const auto back = std::ranges::find_if(links, [&](const MeasuredRankLink& other) { return other.from == to && other.to == from; });
      EXPECT_EQ(back->shared, link.shared);
      EXPECT_EQ(back->both_at_once_s, link.both_at_once_s);
    }
}

void expect_links_of_three(const std::shared_ptr<RankGroup>& group, std::vector<std::vector<MeasuredRankLink>>& by_rank) {
  RankStreams streams(group);
  std::vector<MeasuredRankLink>& links = by_rank[as_index(group->rank())];
  links = measure_rank_links(streams, 5, 3);
  expect_every_link(links, 3);
}

TEST(RankLinks, EveryRankGetsThoseOfAllInMemory) {
  std::vector<std::vector<MeasuredRankLink>> by_rank(3);
  ThreadRanks(3).run([&](const std::shared_ptr<RankGroup>& group) { expect_links_of_three(group, by_rank); });
  EXPECT_EQ(by_rank[0], by_rank[1]);
  EXPECT_EQ(by_rank[0], by_rank[2]);
}

TEST(RankLinks, EveryRankGetsThoseOfAllOverGloo) {
  std::vector<std::vector<MeasuredRankLink>> by_rank(3);
  testing::run_gloo(3, 60, [&](const std::shared_ptr<RankGroup>& group) { expect_links_of_three(group, by_rank); });
  EXPECT_EQ(by_rank[0], by_rank[1]);
  EXPECT_EQ(by_rank[0], by_rank[2]);
}

/// Devices of three ranks on this process's cores: the first rank has two.
std::vector<std::shared_ptr<Device>> four_devices(const RankGroup& group) {
  std::vector<std::shared_ptr<Device>> devices;
  for (const char* name : {"0@cpu:0", "0@cpu:1", "1@cpu:0", "2@cpu:0"}) {
    DeviceSpec spec = parse_device(name);
    spec.cores = {available_cores().front()};
    devices.push_back(make_device_of(spec, &group));
  }
  return devices;
}

TEST(RankLinks, DevicesThatAreConnectedHaveLinksOfTheirOwn) {
  const testing::MemoryConnector connector({"2@cpu:0"});  // "one device" like any other, as long as it is alone
  std::vector<std::vector<MeasuredRankLink>> by_rank(3), none(3);
  ThreadRanks(3).run([&](const std::shared_ptr<RankGroup>& group) {
    RankStreams streams(group);
    by_rank[as_index(group->rank())] = measure_direct_links(streams, four_devices(*group), 5, &connector, 3, 1 << 20);
    none[as_index(group->rank())] = measure_direct_links(streams, four_devices(*group), 6, nullptr, 3);
  });
  EXPECT_EQ(by_rank[0], by_rank[1]);
  EXPECT_EQ(by_rank[0], by_rank[2]);
  std::vector<std::pair<int, int>> ends;
  for (const MeasuredRankLink& link : by_rank[0]) {
    ends.emplace_back(link.from, link.to);
    EXPECT_GE(link.latency_s, 0);
    EXPECT_GT(link.bytes_per_second, 0);
    EXPECT_GE(link.largest_bytes, 1 << 20);
    EXPECT_GT(link.both_at_once_s, 0);
  }
  const std::vector<std::pair<int, int>> all{{0, 2}, {0, 3}, {1, 2}, {1, 3}, {2, 0}, {2, 1}, {2, 3}, {3, 0}, {3, 1}, {3, 2}};
  EXPECT_EQ(ends, all);
  EXPECT_TRUE(none[0].empty());
}

TEST(RankLinks, ARankAloneHasNone) {
  EXPECT_TRUE(measured_over(1, {.latency_s = 0, .bytes_per_second = 1e9}).empty());
}

TEST(RankLinks, SlowLinksAreMeasuredAndCarryNoLargeMessages) {
  const auto links = measured_over(2, {.latency_s = 10e-3, .bytes_per_second = 20e6});
  expect_every_link(links, 2);
  for (const MeasuredRankLink& link : links) {
    EXPECT_GT(link.latency_s, 5e-3);
    EXPECT_LT(link.latency_s, 20e-3);
    EXPECT_GT(link.bytes_per_second, 10e6);
    EXPECT_LT(link.bytes_per_second, 40e6);
    EXPECT_EQ(link.largest_bytes, 1 << 20);
    EXPECT_GT(link.alone_s, 0.04);
    EXPECT_FALSE(link.shared) << link.both_at_once_s << " " << link.alone_s;
  }
}

TEST(RankLinks, DirectionsThatQueueOnOneMediumAreShared) {
  for (const MeasuredRankLink& link : measured_over(2, {.latency_s = 0, .bytes_per_second = 10e6, .shared = true})) {
    EXPECT_TRUE(link.shared) << link.both_at_once_s << " " << link.alone_s;
    EXPECT_GT(link.bytes_per_second, 5e6);
    EXPECT_GT(link.both_at_once_s, 0.2);
  }
}

}  // namespace
}  // namespace mptune::tuner
