// What ranks send each other, valid as frames and odd in what it holds: one message of a conversation is changed, at random from a seed.
// Each rank ends with its result or an Error.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "profiler/base/error.h"
#include "profiler/trace/collect/host_collector.h"
#include "tests/support/cases.h"
#include "tests/support/thread_ranks.h"
#include "tuner/runtime/between/rank_clocks.h"
#include "tuner/runtime/between/rank_streams.h"
#include "tuner/worker/program/rank_recording.h"
#include "tuner/worker/program/series_ranks.h"

namespace mptune::tuner {
namespace {

using testing::ThreadRanks;
using Random = std::mt19937_64;

/// Changes numbers of a message, which keeps its size.
at::Tensor changed(const at::Tensor& bytes, Random& random) {
  const at::Tensor copy = bytes.clone().view(at::kByte).contiguous();
  if (copy.numel() == 0) return copy.view(bytes.scalar_type());
  const auto pick = [&](std::int64_t count) { return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(count)); };
  constexpr std::int64_t kOdd[] = {0,
                                   1,
                                   2,
                                   -1,
                                   -2,
                                   7,
                                   64,
                                   1 << 20,
                                   1 << 28,
                                   std::int64_t{1} << 40,
                                   std::numeric_limits<std::int64_t>::max(),
                                   std::numeric_limits<std::int64_t>::min()};
  const int changes = random() % 3 == 0 ? 4 : 1;
  for (int i = 0; i < changes; ++i) {
    auto* const first = copy.data_ptr<std::uint8_t>();
    if (const std::int64_t words = copy.numel() / 8; words > 0 && random() % 4 != 0) {
      std::int64_t number = 0;
      auto* const place = first + 8 * pick(words);
      std::memcpy(&number, place, 8);
      number = random() % 3 == 0 ? number + pick(5) - 2 : kOdd[pick(std::ssize(kOdd))];
      std::memcpy(place, &number, 8);
    } else {
      first[pick(copy.numel())] ^= static_cast<std::uint8_t>(1U << (random() % 8));
    }
  }
  return copy.view(bytes.scalar_type());
}

/// Sends one message of all that its rank sends otherwise than it is.
class OddRank final : public RankGroup {
 public:
  OddRank(std::shared_ptr<RankGroup> inner, int number, std::uint64_t seed) : inner_(std::move(inner)), left_(number), random_(seed) {}
  [[nodiscard]] int rank() const override { return inner_->rank(); }
  [[nodiscard]] int size() const override { return inner_->size(); }
  void send(int to, int tag, at::Tensor bytes) override {
    inner_->send(to, tag, left_-- == 0 ? changed(bytes, random_) : std::move(bytes));
  }
  void receive(int from, int tag, const at::Tensor& bytes) override { inner_->receive(from, tag, bytes); }
  void all_reduce(const std::vector<int>& ranks, int sum, const at::Tensor& numbers) override { inner_->all_reduce(ranks, sum, numbers); }
  void give_up(const Error& why) override { inner_->give_up(why); }

 private:
  std::shared_ptr<RankGroup> inner_;
  int left_;
  Random random_;
};

using Conversation = std::function<void(const std::shared_ptr<RankGroup>&)>;

void tensors(const std::shared_ptr<RankGroup>& group) {
  RankStreams streams(group);
  const int other = 1 - group->rank();
  const at::Tensor rows = at::arange(12, at::kFloat).view({3, 4});
  for (int step = 0; step < 2; ++step) {
    streams.send(other, 1, 0, {rows, at::Tensor(), rows.t(), at::ones({2}, at::kLong), rows});
    for (const at::Tensor& tensor : streams.receive(other, 1, 0))
      if (tensor.defined()) (void)tensor.sum().item<double>();
    streams.send_in_place(other, 2, 0, {rows + step, at::ones({20'000})});
    for (const at::Tensor& tensor : streams.receive_in_place(other, 2, 0, {at::zeros({3, 4})}))
      if (tensor.defined()) (void)tensor.sum().item<double>();
  }
}

void numbers_and_texts(const std::shared_ptr<RankGroup>& group) {
  RankStreams streams(group);
  (void)streams.exchange(1, {1.5, 2.5, 3.5});
  (void)streams.exchange_lists(2, std::vector<double>(static_cast<std::size_t>(group->rank()), 1.0));
  (void)streams.exchange_lines(3, {"cpu:0", "", "a name"});
}

void clocks(const std::shared_ptr<RankGroup>& group) {
  RankStreams streams(group);
  const ClockReading first = read_clocks(streams, 1), last = read_clocks(streams, 1);
  (void)exchange_clocks(streams, 2, clock_between(first, last));
}

void orders(const std::shared_ptr<RankGroup>& group) {
  SeriesRanks ranks(group, 3);
  for (int entry = 0; entry < 3; ++entry) {
    ranks.tell(SeriesWork::step, entry);
    if (!ranks.lead()) {
      EXPECT_LT(ranks.told().second, 3);
    }
    (void)ranks.agree(entry == 1 && group->rank() == 1 ? SeriesRanks::End(Outcome(OutOfMemory{"1@cpu:0", 100, 50})) : SeriesRanks::End());
  }
  ranks.tell(SeriesWork::end, 0);
  if (!ranks.lead()) (void)ranks.told();
}

void recordings(const std::shared_ptr<RankGroup>& group) {
  RankStreams streams(group);
  HostCollector collector({{"0@cpu:0", "", 1}, {"1@cpu:1", "", 1}});
  collector.start();
  const int name = collector.name("a layer");
  const auto now = std::chrono::steady_clock::now();
  for (int i = 0; i < 5; ++i) {
    const auto start = now + std::chrono::milliseconds(2 * i);
    collector.lane(group->rank(), 0, "thread").add(EventKind::forward, name, {}, start, start + std::chrono::milliseconds(1));
  }
  collector.add_step(0, now, now + std::chrono::milliseconds(20));
  const int other = 1 - group->rank();
  streams.send(other, 1, 0, message_of(collector.take()));
  HostLog log = log_from(streams.receive(other, 1, 0));
  set_to_first_clock(log, other, {RankClock{}, RankClock{}}, {0, 1});
}

constexpr int kMostMessages = 24;

/// The threads of the ranks may end with an Error, and with nothing else.
void expect_errors_alone(const std::string& what, const Conversation& conversation, int seeds) {
  std::atomic<int> refused = 0;
  for (int seed = 0; seed < seeds; ++seed) {
    ThreadRanks ranks(2, std::chrono::milliseconds(300));  // a rank may be told to wait for what nobody sends
    try {
      ranks.run([&](const std::shared_ptr<RankGroup>& group) {
        const bool odd = group->rank() == seed % 2;
        conversation(std::make_shared<OddRank>(group, odd ? seed / 2 % kMostMessages : -1, static_cast<std::uint64_t>(seed)));
      });
    } catch (const Error&) {
      ++refused;
    } catch (const RanksGivenUp&) {
      ++refused;
    } catch (const c10::Error& error) {
      // A message said that so much comes.
      EXPECT_NE(std::string(error.what_without_backtrace()).find("allocate"), std::string::npos)
          << what << ", seed " << seed << ": " << error.what();
      ++refused;
    } catch (const std::exception& error) {
      ADD_FAILURE() << what << ", seed " << seed << ": " << error.what();
    }
  }
  EXPECT_GT(refused, seeds / 100) << what;
}

void converse(int seeds) {
  expect_errors_alone("tensors", tensors, seeds);
  expect_errors_alone("numbers and texts", numbers_and_texts, seeds);
  expect_errors_alone("orders", orders, seeds);
  expect_errors_alone("recordings", recordings, seeds);
  expect_errors_alone("clocks", clocks, seeds / 10);
}

TEST(OddMessages, OfRanksAreRefused) {
  converse(testing::cases(200));
}

TEST(NightlyOddMessages, OfRanksAreRefused) {
  converse(10'000);
}

}  // namespace
}  // namespace mptune::tuner
