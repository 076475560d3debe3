#pragma once

#include <ATen/ATen.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "tuner/runtime/between/rank_group.h"

namespace mptune::testing {

/// Ranks that are threads of one process. Messages lie in memory.
class ThreadRanks {
 public:
  /// `patience`: how long a rank waits for another one.
  explicit ThreadRanks(int size, std::chrono::milliseconds patience = std::chrono::hours(1)) : size_(size), patience_(patience) {}

  [[nodiscard]] std::shared_ptr<RankGroup> rank(int number) { return std::make_shared<Rank>(*this, number); }
  /// Runs `work` as each rank, at the same time. What one throws is thrown again, the first rank's first, once all have ended.
  void run(const std::function<void(std::shared_ptr<RankGroup>)>& work) {
    std::vector<std::exception_ptr> errors(as_index(size_));
    std::vector<std::thread> threads;
    for (int r = 0; r < size_; ++r)
      threads.emplace_back([&, r] {
        try {
          work(rank(r));
        } catch (...) {
          errors[as_index(r)] = std::current_exception();
          rank(r)->give_up(error_for_ranks(errors[as_index(r)]));
        }
      });
    for (std::thread& thread : threads) thread.join();
    for (const std::exception_ptr& error : errors)
      if (error) std::rethrow_exception(error);
  }
  /// Messages sent so far.
  [[nodiscard]] int sent() {
    const std::lock_guard lock(mutex_);
    return sent_;
  }

  /// Of those messages.
  [[nodiscard]] std::int64_t sent_bytes() {
    const std::lock_guard lock(mutex_);
    std::int64_t bytes = 0;
    for (const auto& [rank, sent] : sent_bytes_) bytes += sent;
    return bytes;
  }
  [[nodiscard]] std::int64_t sent_bytes_of(int rank) {
    const std::lock_guard lock(mutex_);
    return sent_bytes_[rank];
  }

 private:
  class Rank final : public RankGroup {
   public:
    Rank(ThreadRanks& all, int number) : all_(all), number_(number) {}
    [[nodiscard]] int rank() const override { return number_; }
    [[nodiscard]] int size() const override { return all_.size_; }
    void send(int to, int tag, at::Tensor bytes) override {
      const std::lock_guard lock(all_.mutex_);
      ++all_.sent_;
      all_.sent_bytes_[number_] += static_cast<std::int64_t>(bytes.nbytes());
      all_.messages_[{number_, to, tag}].push_back(std::move(bytes));
      all_.changed_.notify_all();
    }
    void receive(int from, int tag, const at::Tensor& bytes) override {
      std::unique_lock lock(all_.mutex_);
      auto& queue = all_.messages_[{from, number_, tag}];
      wait(lock, [&] { return !queue.empty(); });
      if (queue.front().nbytes() != bytes.nbytes()) throw Error("a message of another size was expected", "ranks", "", ExitCode::internal);
      at::Tensor(bytes).copy_(queue.front().view(bytes.scalar_type()));
      queue.pop_front();
    }
    /// In descending order of the ranks: in another one than a rank alone would.
    void all_reduce(const std::vector<int>& ranks, int sum, const at::Tensor& numbers) override {
      std::unique_lock lock(all_.mutex_);
      auto& given = all_.sums_[{sum, all_.rounds_[{number_, sum}]++}];
      given[number_] = numbers.clone();
      all_.changed_.notify_all();
      wait(lock, [&] { return given.size() == ranks.size(); });
      at::Tensor total = at::zeros_like(numbers);
      for (auto of_rank = given.rbegin(); of_rank != given.rend(); ++of_rank) total += of_rank->second;
      at::Tensor(numbers).copy_(total);
    }
    void give_up(const Error& why) override {
      const std::lock_guard lock(all_.mutex_);
      if (!all_.why_) {
        all_.why_ = Error(why.problem(), "rank " + std::to_string(number_) + ", " + why.where(), why.remedy(), why.code());
        all_.by_ = number_;
      }
      all_.changed_.notify_all();
    }

   private:
    void wait(std::unique_lock<std::mutex>& lock, const std::function<bool()>& ready) {
      if (!all_.changed_.wait_for(lock, all_.patience_, [&] { return ready() || all_.why_; }))
        throw Error("another rank has said nothing", "ranks", "", ExitCode::environment);
      if (all_.why_ && all_.by_ == number_) throw RanksGivenUp();
      if (all_.why_) throw *all_.why_;
    }
    ThreadRanks& all_;
    int number_;
  };

  const int size_;
  const std::chrono::milliseconds patience_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::tuple<int, int, int>, std::deque<at::Tensor>> messages_;
  std::map<std::pair<int, int>, std::map<int, at::Tensor>> sums_;  ///< what ranks gave, by number of the sum and round
  std::map<std::pair<int, int>, int> rounds_;                      ///< begun so far, by rank and number of the sum
  std::optional<Error> why_;
  int by_ = -1;
  int sent_ = 0;
  std::map<int, std::int64_t> sent_bytes_;  ///< by rank
};

}  // namespace mptune::testing
