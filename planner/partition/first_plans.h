#pragma once

#include <functional>

#include "planner/partition/balance_bound.h"
#include "planner/partition/cut_rater.h"
#include "planner/partition/windows.h"

namespace mptune::planner {

/// Considers plans that are likely good: the cuts of the balance bound, the cuts of this bound with copies counted as their senders' work,
/// and better neighbours of both by hill climbing. Good plans early shorten the proof. Requires: `balance` is up to date with `allowed`.
/// `may_rate` is asked before each plan; false ends the search, after the balanced plans.
void consider_first_plans(CutRater& rater, const BalanceBound& balance, const Windows& allowed, int microbatches,
                          const std::function<bool()>& may_rate);

}  // namespace mptune::planner
