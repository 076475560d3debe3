#pragma once

#include <string>

namespace mptune {

/// A file or folder of this process that is removed when the process ends, unless the object was destroyed before. Destructors remove what
/// they own; this is for the other ways to end: an interrupt calls remove_unfinished(), and, where nothing of the process can run any more,
/// the next process that looks removes it (remove_leftovers). Thread-safe.
class Unfinished {
 public:
  explicit Unfinished(std::string path);
  ~Unfinished();
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;

 private:
  std::string path_;
};

/// Removes all unfinished files and folders of this process. Its threads may go on writing: the process must end now.
void remove_unfinished();

/// Removes entries of `folder` named `prefix` + process number + "-" + anything whose process has ended. A process of another container may
/// have any number: what it holds locked (lock_unfinished) stays. What can't be removed stays.
void remove_leftovers(const std::string& folder, const std::string& prefix);

/// Locks an open file or folder (flock) until the descriptor is closed, so that it does not count as a leftover.
void lock_unfinished(int descriptor);

}  // namespace mptune
