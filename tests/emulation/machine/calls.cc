#include "tests/emulation/machine/calls.h"

#include <unistd.h>

#include <atomic>

#include "tests/emulation/machine/observers.h"

namespace emulation {

namespace {

std::atomic<std::uint32_t> correlations = 0;

struct ThreadCalls {
  int depth = 0;  ///< calls within each other
  ApiRecord outermost;
  Status last_error = 0;
};

thread_local ThreadCalls calls;

}  // namespace

ApiCall::ApiCall(Domain domain, int id) {
  if (++calls.depth > 1) return;
  calls.outermost = {domain, id, static_cast<std::uint32_t>(getpid()), ++correlations, 0};
  if (id != 0) tell_api_begins(calls.outermost);
}

ApiCall::~ApiCall() {
  if (--calls.depth > 0) return;
  if (calls.outermost.id != 0) tell_api_ended(calls.outermost);
}

Status ApiCall::end(Status status) {
  if (status != 0) calls.last_error = status;
  if (calls.depth == 1) calls.outermost.status = status;
  return status;
}

std::uint32_t current_correlation() {
  return calls.depth > 0 ? calls.outermost.correlation : ++correlations;
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
