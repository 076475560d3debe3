#include "tuner/worker/program/ranks.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <thread>

#include "profiler/base/activity.h"
#include "profiler/base/device_spec.h"
#include "profiler/base/error.h"
#include "tuner/runtime/between/patient_store.h"
#include "tuner/runtime/between/rank_store.h"

namespace mptune::tuner {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kNextLook = std::chrono::milliseconds(20);
constexpr auto kHeartbeat = std::chrono::seconds(1);
constexpr auto kGraceBehind = std::chrono::seconds(5);  // to end a request that rank 0 has left
constexpr auto kGraceOfEnd = std::chrono::seconds(2);   // for other ranks to learn that no request comes
constexpr double kPatienceLater = 3;
constexpr double kPatienceForNextRequest = 120;  // in which a rank that was there starts its next worker
constexpr const char* kEnd = "end";
constexpr const char* kEnded = "ended";

std::string name_of_request(int number) {
  return "request " + std::to_string(number);
}

std::string name_of_part(const TrainingSetup& setup, int part) {
  return std::to_string(setup.rank_call) + "." + std::to_string(part);
}

bool between_ranks(const TrainingSetup& setup, const RankPlace& place) {
  return place.ranks > 1 && std::ranges::any_of(setup.devices, names_rank);
}

/// Tells mptune that this worker is alive while it waits for rank 0, and ends the process where rank 0 has gone on without it.
class Heartbeat {
 public:
  Heartbeat(std::shared_ptr<RankStore> store, int request, const Replies& reply)
      : store_(std::move(store)), request_(request), reply_(reply), thread_([this] { loop(); }) {}
  ~Heartbeat() {
    stop_ = true;
    thread_.join();
  }
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

 private:
  void loop() {
    for (auto next = Clock::now(); !stop_; std::this_thread::sleep_for(kNextLook)) {
      if (Clock::now() < next) continue;
      next += kHeartbeat;
      reply_(Progress{});
      if (!has_gone_on()) continue;
      if (!behind_since_) behind_since_ = Clock::now();
      if (Clock::now() - *behind_since_ > kGraceBehind) ::_exit(static_cast<int>(ExitCode::environment));
    }
  }
  [[nodiscard]] bool has_gone_on() {
    try {
      return store_->find(name_of_request(request_ + 1)) || store_->find(kEnd);
    } catch (const StoreSilent&) {
      return false;  // it may answer again; what needs it says that it is silent
    } catch (const Error&) {
      return true;
    }
  }

  std::shared_ptr<RankStore> store_;
  int request_;
  const Replies& reply_;
  std::optional<Clock::time_point> behind_since_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

/// The request with this number, or nothing where rank 0 has ended; `exit_code` is then what it ended with.
std::optional<std::string> awaited_request(RankStore& store, int number, int& exit_code) {
  while (true) {
    if (auto line = store.find(name_of_request(number))) return line;
    if (const auto end = store.find(kEnd)) {
      exit_code = std::atoi(end->c_str());
      return std::nullopt;
    }
    std::this_thread::sleep_for(kNextLook);
  }
}

/// Until all ranks work on this request. Says on the activity board, and where one does not come, which one is waited for.
void await_ranks(RankStore& store, const RankPlace& place, int call) {
  const double patience_s = call == 0 ? RankOptions().patience_s : kPatienceForNextRequest;
  const auto limit = Clock::now() + std::chrono::duration<double>(patience_s);
  const auto here = [&](int rank) { return "rank " + std::to_string(rank) + " is here for " + std::to_string(call); };
  store.set(here(place.rank), "");
  for (int other = 0; other < place.ranks; ++other) {
    const Activity activity("waiting for rank " + std::to_string(other), "", patience_s);
    while (!store.find(here(other))) {
      if (Clock::now() >= limit)
        throw Error("rank " + std::to_string(other) + " has not come within " + std::to_string(static_cast<int>(patience_s)) + " s",
                    "rank " + std::to_string(place.rank),
                    "see that it was started, with the same MPTUNE_RANKS_TOKEN, and whether it is stopped", ExitCode::environment);
      std::this_thread::sleep_for(kNextLook);
    }
  }
}

}  // namespace

std::shared_ptr<RankGroup> ranks_for(const Request& request) {
  const TrainingSetup setup = std::visit([](const auto& any) { return any.setup; }, request);
  const RankPlace place = rank_place();
  if (!between_ranks(setup, place)) return nullptr;
  const Activity activity("joining the other ranks", "", RankOptions().patience_s);
  const std::shared_ptr<RankStore> store = open_rank_store(place, RankOptions().patience_s);
  if (place.rank == 0) store->set(name_of_request(setup.rank_call), encode(request));
  await_ranks(*store, place, setup.rank_call);
  return join_ranks(place, {.name = std::to_string(setup.rank_call)});
}

std::shared_ptr<RankGroup> ranks_for_part(const TrainingSetup& setup, int part) {
  const RankPlace place = rank_place();
  if (!between_ranks(setup, place)) return nullptr;
  return join_ranks(place, {.name = name_of_part(setup, part)});
}

void for_ranks(const std::shared_ptr<RankGroup>& ranks, const std::function<void()>& work) {
  try {
    work();
  } catch (...) {
    if (ranks) ranks->give_up(error_for_ranks(std::current_exception()));
    throw;
  }
}

void keep_store(const StoreRequest& /*request*/, const Replies& reply) {
  const std::shared_ptr<RankStore> store = keep_rank_store(rank_place());
  reply(StoreOpen{});
  while (true) ::pause();
}

void serve(const ServeRequest& request, const Replies& reply, const std::function<void(const Request&)>& work) {
  const int number = request.setup.rank_call;
  const Activity activity("waiting for", "rank 0", RankOptions().patience_s);
  // Rank 0 may start later than this one. Once it has been there, it is there or has ended.
  const std::shared_ptr<RankStore> store = open_rank_store(rank_place(), number == 0 ? RankOptions().patience_s : kPatienceLater);
  const Heartbeat heartbeat(store, number, reply);
  int exit_code = 0;
  const auto line = awaited_request(*store, number, exit_code);
  if (!line) {
    reply(NothingToServe{exit_code});
    (void)store->add(kEnded, 1);
    return;
  }
  reply(Serving{});
  work(decode_request(*line));
}

void end_ranks(const EndRanksRequest& request, const Replies& /*reply*/) {
  const RankPlace place = rank_place();
  const std::shared_ptr<RankStore> store = open_rank_store(place, std::chrono::duration<double>(kGraceOfEnd).count());
  store->set(kEnd, std::to_string(request.exit_code));
  const auto limit = Clock::now() + kGraceOfEnd;
  while (store->add(kEnded, 0) < place.ranks - 1 && Clock::now() < limit) std::this_thread::sleep_for(kNextLook);
}

}  // namespace mptune::tuner
