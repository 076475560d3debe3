#include "tuner/worker/host/rank_service.h"

#include <cstdlib>
#include <optional>
#include <string>
#include <variant>

#include "profiler/base/error.h"
#include "tuner/worker/host/interrupt.h"
#include "tuner/worker/host/worker_death.h"
#include "tuner/worker/host/worker_process.h"

namespace mptune::tuner {
namespace {

constexpr double kStoreStarts = 60;
constexpr int kMostDeaths = 3;

/// Waits until the worker runs the store.
void await_store(WorkerProcess& worker) {
  while (true) {
    const auto next = worker.next(kStoreStarts, interrupt_flag());
    if (interrupt_flag() != 0) throw interrupt_error("mptune-worker", "start the command again");
    if (const auto* end = std::get_if<WorkerEnd>(&next)) {
      if (end->silence.silence != Silence::none) throw death_of(*end, circumstances_of(*end, ""));
      throw Error("the store of the ranks could not be started", "mptune-worker", "free memory and processes (ulimit -a)",
                  ExitCode::environment);
    }
    const Reply& reply = std::get<Reply>(next);
    if (const auto* failed = std::get_if<Failed>(&reply)) throw_failed(*failed);
    if (std::holds_alternative<StoreOpen>(reply)) return;
  }
}

/// What became of one request of rank 0.
struct Served {
  bool begun = false;
  std::optional<Error> death = {};  ///< why the worker could not even wait for the request
  std::optional<int> end = {};      ///< there are no more requests: the exit code
};

/// Returns the worker's next reply. A worker that dies before it has said anything may be another program's victim.
std::variant<Reply, WorkerEnd> next_of(WorkerProcess& worker, Served& served) {
  constexpr double kNoLimit = 1e9;  // the worker's silence is judged instead
  try {
    return worker.next(kNoLimit, interrupt_flag());
  } catch (const Error& error) {
    served.death = error;
    return WorkerEnd{};
  }
}

/// Serves one request. Throws Error where rank 0 can't be reached. Rank 0 judges a request that fails: its own worker says why.
Served serve_one(int number) {
  Served served;
  ServeRequest request;
  request.setup.rank_call = number;
  WorkerProcess worker(find_worker(), request);
  while (true) {
    const auto next = next_of(worker, served);
    if (interrupt_flag() != 0) throw interrupt_error("mptune-worker", "start the command again");
    if (std::holds_alternative<WorkerEnd>(next)) return served;
    const Reply& reply = std::get<Reply>(next);
    if (std::holds_alternative<Done>(reply)) return served;
    if (const auto* failed = std::get_if<Failed>(&reply)) {
      if (!served.begun) throw_failed(*failed);
      return served;
    }
    served.begun = served.begun || std::holds_alternative<Serving>(reply);
    if (const auto* nothing = std::get_if<NothingToServe>(&reply)) served.end = nothing->exit_code;
  }
}

}  // namespace

RankLead::RankLead(const RankPlace& place) {
  if (place.store_runs) return;
  store_ = std::make_unique<WorkerProcess>(find_worker(), StoreRequest{});
  await_store(*store_);
  ::setenv("TORCHELASTIC_USE_AGENT_STORE", "True", 1);  // rank 0's workers need not run it
}

RankLead::~RankLead() {
  if (!ended_) end(static_cast<int>(ExitCode::environment));
}

void RankLead::end(int exit_code) {
  ended_ = true;
  if (interrupt_flag() != 0) return;  // the other ranks notice that the store is gone
  try {
    call_worker(EndRanksRequest{{}, exit_code}, {}, [](const Reply&) {});
  } catch (const Error&) {
    // The other ranks that can't be told notice that the store is gone.
  }
}

int serve_ranks() {
  int died = 0;  // workers that only waited
  for (int number = 0; died < kMostDeaths;) {
    const Served served = serve_one(number);
    if (served.end) return *served.end;
    died = served.begun ? 0 : died + 1;
    number += served.begun ? 1 : 0;
    if (served.death && died == kMostDeaths) throw *served.death;
  }
  throw Error("mptune-worker dies while it waits for rank 0", "rank " + std::to_string(rank_place().rank),
              "free memory and processes (ulimit -a), and look into the kernel's log (dmesg)", ExitCode::environment);
}

}  // namespace mptune::tuner
