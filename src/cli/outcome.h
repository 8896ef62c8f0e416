#pragma once
// What a job object says about its ending.

#include <boost/json/fwd.hpp>
#include <string>

namespace waybill::cli {

bool is_finished(const boost::json::object& job);

// The job's own exit code as a shell would give it (SPEC section 15); 125 when it is not known or
// the job was stopped in the queue. 0 for a job that is not finished.
int exit_code_of(const boost::json::object& job);

// The first that is not 0, in the order given.
int exit_code_of(const boost::json::array& jobs);

// One sentence: "exit 0, but stage 1 of 2 (cargo test) exited 101"; "" while unfinished.
std::string ending_of(const boost::json::object& job);

}  // namespace waybill::cli
