#include "tests/emulation/machine/calls.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

#include "tests/emulation/machine/clock.h"
#include "tests/emulation/machine/observers.h"

namespace emulation {

namespace {

std::atomic<std::uint32_t> correlations = 0;

struct ThreadCalls {
  int depth = 0;         ///< calls within each other
  int internal = 0;      ///< InternalCalls within each other
  bool counted = false;  ///< the one call that counts while `internal`
  ApiRecord outermost;
  Status last_error = 0;
};

thread_local ThreadCalls calls;

std::uint32_t thread_number() {
  static thread_local const auto number = static_cast<std::uint32_t>(syscall(SYS_gettid));
  return number;
}

}  // namespace

ApiCall::ApiCall(Domain domain, int id) {
  if (++calls.depth > 1 || (calls.internal > 0 && calls.counted)) return;
  calls.counted = true;
  calls.outermost = {domain, id, host_clock(), 0, static_cast<std::uint32_t>(getpid()), thread_number(), ++correlations, 0};
  if (id != 0) tell_api_begins(calls.outermost);
}

ApiCall::~ApiCall() {
  if (--calls.depth > 0 || !calls.counted) return;
  if (calls.outermost.end != 0) return;
  calls.outermost.end = host_clock();
  if (calls.outermost.id != 0) tell_api_ended(calls.outermost);
  if (calls.internal == 0) calls.counted = false;
}

Status ApiCall::end(Status status) {
  if (status != 0) calls.last_error = status;
  if (calls.depth == 1) calls.outermost.status = status;
  return status;
}

InternalCalls::InternalCalls() {
  ++calls.internal;
}

InternalCalls::~InternalCalls() {
  if (--calls.internal == 0 && calls.depth == 0) calls.counted = false;
}

std::uint32_t current_correlation() {
  return calls.counted ? calls.outermost.correlation : ++correlations;
}

Status last_error(bool forget) {
  const Status error = calls.last_error;
  if (forget) calls.last_error = 0;
  return error;
}

void set_last_error(Status status) {
  calls.last_error = status;
}

}  // namespace emulation
