//! The objects that plans create.

use crate::resources::{CLAIMS, ENDPOINTS, JOBS, PODS, REPLICA_SETS, REVISIONS, SLICES, VOLUMES};
use berth_api::{Object, apps::ReplicaSet};
use berth_identity::{GroupResource, ObjectKey};
use k8s_openapi::api::{
    apps::v1::ControllerRevision,
    batch::v1::Job,
    core::v1::{Endpoints, PersistentVolume, PersistentVolumeClaim, Pod},
    discovery::v1::EndpointSlice,
};
use serde::{Deserialize, Serialize};

macro_rules! new_object {
    ($($kind:ident: $resource:ident),+ $(,)?) => {
        /// An object to create, of one of the kinds that plans create.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[expect(missing_docs, reason = "each case is the kind that it is named after")]
        pub enum NewObject {
            $($kind(Box<$kind>)),+
        }

        impl NewObject {
            /// Its resource.
            #[must_use]
            pub fn resource(&self) -> GroupResource {
                match self {
                    $(Self::$kind(_) => $resource),+
                }
            }

            /// The object as a trait object.
            #[must_use]
            pub fn as_object(&self) -> &dyn Object {
                match self {
                    $(Self::$kind(object) => &**object),+
                }
            }

            /// The object as a boxed trait object.
            #[must_use]
            pub fn into_object(self) -> Box<dyn Object> {
                match self {
                    $(Self::$kind(object) => object),+
                }
            }
        }

        $(
            impl From<$kind> for NewObject {
                fn from(object: $kind) -> Self {
                    Self::$kind(Box::new(object))
                }
            }
        )+
    };
}

new_object! {
    ControllerRevision: REVISIONS,
    EndpointSlice: SLICES,
    Endpoints: ENDPOINTS,
    Job: JOBS,
    PersistentVolume: VOLUMES,
    PersistentVolumeClaim: CLAIMS,
    Pod: PODS,
    ReplicaSet: REPLICA_SETS,
}

impl NewObject {
    /// Its key.
    #[must_use]
    pub fn key(&self) -> ObjectKey {
        let meta = self.as_object().meta();
        ObjectKey { namespace: meta.namespace.clone().into(), name: meta.name.clone().into() }
    }
}
