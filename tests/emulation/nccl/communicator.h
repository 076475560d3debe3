#pragma once

/// A communicator: the members' connections, and the order of what it runs.

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/emulation/machine/machine.h"
#include "tests/emulation/nccl/mesh.h"
#include "tests/emulation/nccl/nccl_api.h"

namespace emulation {

struct Mark;

/// An operation of ncclRedOpCreatePreMulSum.
struct ScaledSum {
  bool in_use = false;
  const void* on_device = nullptr;  ///< read when the sum is computed; null: `scalar`
  std::vector<char> scalar;
};

class Communicator {
 public:
  /// Of the current GPU. Throws NcclFailure.
  Communicator(std::string name, int members, int member, bool blocking);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  /// Blocks until all members are there, and takes NCCL's buffers (EMULATED_NCCL_BUFFERS bytes of the GPU). Throws NcclFailure. Its result
  /// is also what async_error() says.
  void connect();
  /// connect() by a thread of its own; state is ncclInProgress until it ends.
  void connect_behind();

  [[nodiscard]] Mesh& mesh() { return mesh_; }
  [[nodiscard]] const Mesh& mesh() const { return mesh_; }
  [[nodiscard]] int gpu() const { return gpu_; }
  [[nodiscard]] bool is_blocking() const { return blocking_; }
  /// ncclInProgress until connected, ncclRemoteError once a member is gone.
  [[nodiscard]] ncclResult_t async_error() const;
  /// Throws NcclFailure if operations can't be enqueued now.
  void check_ready() const;

  /// Runs one piece of work on `streams`, which all wait for it and it for them; pieces of one communicator run one after another in the
  /// order of their enqueueing, as NCCL's kernels do. Throws NcclFailure.
  void enqueue(const std::vector<Stream*>& streams, Work work);
  /// Waits until what was enqueued has run.
  void wait_for_all();
  /// Ends what waits, and what is enqueued without running it; waits for the GPU to pass it.
  void abort();

  /// Name for the next communicator made of this one: all members count alike.
  [[nodiscard]] std::string next_name() { return mesh_.name() + "." + std::to_string(++descendants_); }

  [[nodiscard]] ncclRedOp_t add(ScaledSum sum);
  void remove(ncclRedOp_t operation);
  /// Throws NcclFailure if there is none.
  [[nodiscard]] ScaledSum scaled_sum(ncclRedOp_t operation) const;

 private:
  void meet_all();
  void end_connecting();

  Mesh mesh_;
  int gpu_ = 0;
  bool blocking_ = true;
  std::atomic<ncclResult_t> state_ = ncclInProgress;
  std::thread connecting_;
  void* buffers_ = nullptr;
  std::atomic<int> descendants_ = 0;
  mutable std::mutex mutex_;
  std::shared_ptr<Mark> last_;     ///< behind the last piece of work
  Stream* last_stream_ = nullptr;  ///< of that
  std::vector<ScaledSum> sums_;
};

}  // namespace emulation

/// The handle.
struct ncclComm {
  std::shared_ptr<emulation::Communicator> communicator;  ///< tasks hold it, too
};
