//! The options about webhooks.

use berth_webhooks::{Options, ServiceAddresses, SimulatedWebhooks};
use clap::{Args, ValueEnum};

/// The options of the server about webhooks.
#[derive(Args, Debug)]
pub(crate) struct WebhookOptions {
    /// The address of a webhook's Service: the webhook is called there, under the name of the Service. Repeatable. Without it, berth uses
    /// the endpoints of the Service that are not simulated pods.
    #[arg(long = "service-resolver", value_name = "NAMESPACE/NAME=HOST:PORT", value_parser = address)]
    service_resolver: Vec<String>,

    /// What happens to reviews by webhooks whose Service has only simulated pods, as in many charts.
    #[arg(long, value_name = "ACTION", value_enum, default_value = "call")]
    simulated_webhooks: Action,
}

/// What happens to reviews by simulated webhooks.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Action {
    /// The call fails, and the failure policy of the webhook decides.
    Call,
    /// Each request is allowed without a call, and nothing changes.
    Allow,
}

impl WebhookOptions {
    /// Returns how webhooks are called.
    pub(crate) fn read(&self) -> Options {
        let mut services = ServiceAddresses::default();
        for address in &self.service_resolver {
            services.add(address).expect("the parser of the option has read it");
        }
        let simulated = match self.simulated_webhooks {
            Action::Call => SimulatedWebhooks::Call,
            Action::Allow => SimulatedWebhooks::Allow,
        };
        Options { services, simulated }
    }
}

fn address(text: &str) -> Result<String, String> {
    text.parse::<ServiceAddresses>().map(|_| text.to_owned()).map_err(|error| error.to_string())
}
