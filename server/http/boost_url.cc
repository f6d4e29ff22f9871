// Boost.URL compiled here where the distribution ships it as headers with sources (Debian 12).
#include <boost/url/src.hpp>
