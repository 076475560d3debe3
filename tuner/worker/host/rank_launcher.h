#pragma once

#include <atomic>
#include <string>
#include <vector>

namespace mptune::tuner {

/// How the ranks of a training ended.
struct RanksEnd {
  /// Why a rank was killed that did not end by itself.
  enum class Killed {
    no,
    stopped,   ///< a signal had stopped it for 10 s
    too_late,  ///< it went on for 30 s after rank 0 had done its work
  };

  int exit_code = 0;   ///< of rank 0 if it failed and said so, else of the first rank that failed, as a shell has it; 0: all went well
  int rank = 0;        ///< that one
  int signal = 0;      ///< that ended it, 0: it ended by itself
  std::string output;  ///< what it printed on stdout; "" for rank 0, which prints it itself
  Killed killed = Killed::no;
};

/// Runs the program `words[0]` as rank 0, and `of_others[0]` as each other rank, on this machine, and waits for them. Each gets RANK,
/// WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT as torchrun sets them. Rank 0 has our descriptors; what others
/// print is kept, and what they say on stderr dropped. Once a rank has failed, the others have some seconds to say why they end, then they
/// are killed; so are all once `interrupted` is a signal's number, after that signal, if one of them is stopped, and if this process is
/// killed.
/// Throws Error (environment) if they can't be started.
[[nodiscard]] RanksEnd run_ranks(const std::vector<std::string>& words, const std::vector<std::string>& of_others, int ranks,
                                 const std::atomic<int>& interrupted);

}  // namespace mptune::tuner
