#pragma once

#include <string>

namespace mptune {

/// A file or folder of this process that vanishes with it unless it is done. Destructors remove what they own; this is for the other ways
/// to end: remove_unfinished() where an interrupt ends the process, and, where nothing of it can run any more, the next process that looks
/// (remove_leftovers). Any thread.
class Unfinished {
 public:
  explicit Unfinished(std::string path);
  ~Unfinished();
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;

 private:
  std::string path_;
};

/// Removes all of this process, with what folders hold. Its threads may go on writing: it must end now.
void remove_unfinished();

/// Removes entries of `folder` named `prefix` + process number + "-" + anything whose process has ended. A process of another container may
/// have any number: what it holds locked (lock_unfinished) stays. What can't be removed stays.
void remove_leftovers(const std::string& folder, const std::string& prefix);

/// Locks an open file or folder (flock) until the descriptor is closed: it is no leftover.
void lock_unfinished(int descriptor);

}  // namespace mptune
