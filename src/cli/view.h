#pragma once
// Job and session objects for people.

#include <boost/json/fwd.hpp>
#include <string>

namespace waybill::cli {

std::string job_line(const boost::json::object& job);   // one line: id, status, ending, command
std::string job_page(const boost::json::object& job);   // everything worth reading
std::string job_table(const boost::json::array& jobs);  // aligned, with a heading
std::string session_page(const boost::json::object& session);
std::string session_table(const boost::json::array& sessions);

// 1.2s, 3m04s, 2h10m.
std::string human_duration(std::uint64_t millis);
// 512 B, 1.5 KiB, 64.0 MiB.
std::string human_size(std::uint64_t bytes);

}  // namespace waybill::cli
